package ledger

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// transactionLog is a Ledger of a ZooKeeper of one server, whose log of transactions has every change with the time at which
// the server took it on, in milliseconds of its wall clock. The change is committed later.
type transactionLog struct {
	ledger *Ledger
	dir    string
}

// RecordZooKeeper records the documents of a ZooKeeper of one server. dir has its files named log.*.
func (l *Ledger) RecordZooKeeper(dir string) Recording { return &transactionLog{l, dir} }

// Close implements Recording.
func (t *transactionLog) Close(context.Context) error {
	files, err := filepath.Glob(filepath.Join(t.dir, "log.*"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no files log.* in %s", t.dir)
	}
	// The name of a file has the number of its first transaction, in hexadecimal digits.
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	for _, file := range files {
		if err == nil {
			err = t.read(file)
		}
	}
	if err != nil {
		return fmt.Errorf("ledger: log of transactions: %w", err)
	}
	return nil
}

// The parts of a log. Each transaction has a checksum of 8 bytes, its length, its bytes, and an end mark; what follows the last
// one is zero.
const (
	logMagic    = "ZKLG"
	logHeader   = 16
	checksum    = 8
	longestText = 1 << 24 // of a transaction, in bytes
)

// read applies the transactions of a file.
func (t *transactionLog) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	b := bufio.NewReaderSize(f, 1<<16)
	head := make([]byte, logHeader)
	if _, err := io.ReadFull(b, head); err != nil || string(head[:len(logMagic)]) != logMagic {
		return fmt.Errorf("%s is no log: %w", file, err)
	}
	for {
		start := make([]byte, checksum+4)
		if _, err := io.ReadFull(b, start); err != nil {
			return nil // the last one was cut off with its server
		}
		size := binary.BigEndian.Uint32(start[checksum:])
		if size == 0 {
			return nil
		}
		if size > longestText {
			return fmt.Errorf("%s has a transaction of %d bytes", file, size)
		}
		text := make([]byte, size+1)
		if _, err := io.ReadFull(b, text); err != nil || uint64(adler32.Checksum(text[:size])) != binary.BigEndian.Uint64(start) {
			return nil
		}
		if err := t.transaction(text[:size]); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
}

// The kinds of transactions that change documents, and of one that failed.
const (
	failed    = -1
	created   = 1
	deleted   = 2
	written   = 5
	several   = 14
	createdAs = 15 // the reply has the state of the znode
)

// transaction applies one.
func (t *transactionLog) transaction(text []byte) error {
	x := jute{rest: text}
	x.skip(8 + 4 + 8) // session, number in it, number of the transaction
	at := time.Duration(x.long())*time.Millisecond - t.ledger.start
	kind := x.int()
	return t.change(span{at, at + time.Millisecond}, kind, x.rest, x.err)
}

// change applies one of the changes of a transaction.
func (t *transactionLog) change(made span, kind int32, text []byte, err error) error {
	x := jute{rest: text, err: err}
	switch kind {
	case several:
		return t.all(made, x)
	case created, createdAs, written:
		name, ok := t.document(string(x.buffer()))
		value := x.buffer()
		if !ok || x.err != nil {
			break
		}
		if value, err = unwrap(value); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		t.ledger.apply(version{resource: name, made: made, counted: made, value: value})
	case deleted:
		if name, ok := t.document(string(x.buffer())); ok && x.err == nil {
			t.ledger.apply(version{resource: name, made: made, counted: made})
		}
	}
	return x.err
}

// all applies the changes of a transaction with several, or none: if one has failed, none has been made.
func (t *transactionLog) all(made span, x jute) error {
	type part struct {
		kind int32
		text []byte
	}
	var parts []part
	for range x.int() {
		p := part{x.int(), x.buffer()}
		if p.kind == failed || x.err != nil {
			return x.err
		}
		parts = append(parts, p)
	}
	for _, p := range parts {
		if err := t.change(made, p.kind, p.text, nil); err != nil {
			return err
		}
	}
	return x.err
}

// document returns the resource of a znode that is a document: /holdfast/r/PREFIX/SHARD/NAME, escaped as in a URL.
func (t *transactionLog) document(path string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(path, "/holdfast/r/"+url.PathEscape(t.ledger.prefix)+"/")
	_, rest, sharded := strings.Cut(rest, "/")
	if !ok || !sharded || strings.Contains(rest, "/") {
		return "", false
	}
	name, err := url.PathUnescape(rest)
	return name, err == nil
}

// wrapped is the length of what precedes a document in a znode: a version, 1, the revision, and for how long it is kept.
const wrapped = 1 + 8 + 8

// unwrap returns the document of a znode.
func unwrap(value []byte) ([]byte, error) {
	if len(value) < wrapped || value[0] != 1 {
		return nil, fmt.Errorf("a znode has %q", value)
	}
	return value[wrapped:], nil
}

var errCut = errors.New("a transaction is cut off")

// jute reads what a transaction consists of. After an error it returns zero values.
type jute struct {
	rest []byte
	err  error
}

func (x *jute) skip(n int) []byte {
	if x.err == nil && (n < 0 || n > len(x.rest)) {
		x.err = errCut
	}
	if x.err != nil {
		return nil
	}
	b := x.rest[:n]
	x.rest = x.rest[n:]
	return b
}

func (x *jute) int() int32 {
	if b := x.skip(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (x *jute) long() int64 {
	if b := x.skip(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// buffer reads bytes, or a text. A negative length is none.
func (x *jute) buffer() []byte { return x.skip(int(max(0, x.int()))) }
