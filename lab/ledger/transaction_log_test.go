package ledger

import (
	"encoding/binary"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// logged is a transaction in a log, at an instant of the history: a kind and what it consists of.
func logged(at time.Duration, kind int32, text []byte) []byte {
	b := make([]byte, 8+4+8)
	b = binary.BigEndian.AppendUint64(b, uint64(start.Add(at).UnixMilli()))
	b = append(binary.BigEndian.AppendUint32(b, uint32(kind)), text...)
	return append(buffered(binary.BigEndian.AppendUint64(nil, uint64(adler32.Checksum(b))), b), 'B')
}

// buffered appends bytes behind their length.
func buffered(b, text []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}

// multi is what a transaction with several changes consists of: the change of a document, and one more of a kind.
func multi(document []byte, kind int32) []byte {
	b := binary.BigEndian.AppendUint32(nil, 2)
	b = buffered(binary.BigEndian.AppendUint32(b, uint32(written)), document)
	return buffered(binary.BigEndian.AppendUint32(b, uint32(kind)), []byte{0, 0, 0, 0})
}

func TestTransactionsAreRead(t *testing.T) {
	document := func(holder string, token uint64) []byte {
		value := append([]byte{1}, make([]byte, wrapped-1)...)
		return buffered(buffered(nil, []byte("/holdfast/r/app/2f/x%2Fy")), append(value, stampedLease(holder, token, token).bytes()...))
	}
	header := append([]byte(logMagic), make([]byte, logHeader-len(logMagic))...)
	torn := logged(50*ms, written, document("c.d", 4))
	torn[40]++
	first := slices.Concat(header, logged(10*ms, createdAs, document("c.a", 1)),
		logged(20*ms, several, multi(document("c.b", 2), failed)), // changes nothing
		logged(30*ms, several, multi(document("c.c", 3), deleted)),
		logged(40*ms, written, buffered(buffered(nil, []byte("/holdfast/r/app/2f/x%2Fy/17")), nil)), // a revision
		torn)
	second := slices.Concat(header, logged(60*ms, written, document("c.e", 5)),
		logged(70*ms, deleted, buffered(nil, []byte("/holdfast/r/app/2f/x%2Fy"))),
		make([]byte, 100), logged(80*ms, written, document("c.f", 6))[:40])
	dir := t.TempDir()
	for name, text := range map[string][]byte{"log.ff": first, "log.100": second, "snapshot.0": {1}} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := New("app", start)
	if err := l.RecordZooKeeper(dir).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := l.resources["x/y"]; len(l.resources) != 1 || len(r.grants) != 3 || r.grants[1].holder != "c.c" || r.grants[2].holder != "c.e" || len(r.leases) > 0 {
		t.Errorf("%+v", r)
	}
	for holder, want := range map[string]span{"c.a": {30 * ms, 31 * ms}, "c.c": {60 * ms, 61 * ms}, "c.e": {70 * ms, 71 * ms}} {
		changes := l.of("x/y", holder)
		if len(changes) != 1 || len(changes[0]) != 2 || changes[0][1].made != want || changes[0][1].deadline != never {
			t.Errorf("%s: %v; want the end at %v", holder, changes, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "log.101"), []byte("no log of transactions"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := New("app", start).RecordZooKeeper(dir).Close(t.Context()); err == nil {
		t.Error("a file that is no log was read")
	}
}
