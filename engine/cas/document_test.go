package cas

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// full is a document in which each field has a value of its own.
func full() *document {
	return &document{
		state: queue.Record{
			Kind: "mutex", Capacity: 1, Birth: 7, Last: 9, Forget: 1_700_000_600_000_000,
			Holders: []queue.Holder{{ID: "a.1", Weight: 1, Token: 9, Since: 5, Deadline: 15_000_000, Reason: "r"}},
			Waiters: []queue.Waiter{{ID: "b.1", Weight: 1, TTL: 15_000_000, Since: 6}},
		},
		clients: map[string]engine.Client{"a": {ID: "a", Name: "stockd", Host: "node-1", PID: 4242}, "b": {ID: "b", PID: -1}},
		stamps:  []uint64{3}, ages: []queue.Time{12}, notes: []note{{witness: "w", proves: 15_000_000}},
	}
}

func TestDocumentIsReadBack(t *testing.T) {
	b := full().encode()
	d, err := decode(b)
	if err != nil || !reflect.DeepEqual(d, full()) {
		t.Fatalf("%+v, %v, want %+v", d, err, full())
	}
	if again := d.encode(); !bytes.Equal(again, b) {
		t.Errorf("encoded as %x, and then as %x", b, again)
	}
	for n := 1; n < len(b); n++ {
		if _, err := decode(b[:n]); err == nil {
			t.Errorf("decoding the first %d of %d bytes: no error", n, len(b))
		}
	}
}

// Whatever bytes a store returns, decoding them is an error or gives a document that can be written.
func FuzzDecodeDocument(f *testing.F) {
	f.Add(full().encode())
	f.Add((&document{}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decode(b)
		if err != nil {
			return
		}
		if _, err := decode(d.encode()); err != nil {
			t.Fatalf("%x was decoded, and what it contains cannot be read back: %v", b, err)
		}
	})
}
