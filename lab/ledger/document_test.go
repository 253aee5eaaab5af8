package ledger

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// documentText is a document as the tests write it.
type documentText struct {
	last    uint64
	leases  []documentLease
	stamped bool
	expired string // the holder of a lease whose time was over
}

// bytes returns the value of a store.
func (d documentText) bytes() []byte {
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	lease := func(b []byte, h documentLease) []byte {
		b = binary.AppendUvarint(text(b, h.holder), 1)
		b = binary.AppendUvarint(b, h.token)
		b = binary.AppendVarint(b, 5) // since
		b = binary.AppendVarint(b, h.deadline.Microseconds())
		b = text(b, "reason")
		if h.breaking {
			return append(b, 1)
		}
		return append(b, 0)
	}
	b := append([]byte{2}, make([]byte, 8)...)
	b = binary.AppendUvarint(b, 1) // clients
	b = text(text(text(b, "c"), "name"), "host")
	b = binary.AppendVarint(b, 4242)
	if d.stamped {
		b = binary.AppendUvarint(b, uint64(len(d.leases)))
		for _, h := range d.leases {
			b = binary.AppendUvarint(b, h.stamp)
		}
		for range d.leases {
			b = binary.AppendUvarint(b, 300) // for how long it is known
		}
		b = text(binary.AppendUvarint(b, 1), "witness")
		for i := range d.leases {
			if b = binary.AppendUvarint(b, uint64(i%2)); i%2 == 1 {
				b = binary.AppendUvarint(b, 1000)
			}
		}
	} else {
		b = append(b, 0, 0) // stamps, witnesses
	}
	b = text(append(b, 1), "mutex")
	for _, n := range []uint64{1, 7, d.last} { // capacity, first, last
		b = binary.AppendUvarint(b, n)
	}
	b = text(lease(binary.AppendVarint(b, 0), documentLease{}), "") // mark, newest, called
	b = binary.AppendUvarint(b, uint64(len(d.leases)))
	for _, h := range d.leases {
		b = lease(b, h)
	}
	b = append(text(binary.AppendUvarint(b, 1), "c.w"), 0, 1, 2, 0, 0, 10) // a waiter
	b = text(b, "")
	if d.expired == "" {
		return append(b, 0)
	}
	b = append(text(append(b, 1), d.expired), expiredCause)
	return binary.AppendVarint(b, 900)
}

func TestDocumentIsRead(t *testing.T) {
	leases := []documentLease{{holder: "c.a", token: 9, stamp: 3, deadline: time.Second}, {holder: "c.b", token: 11, stamp: 4, deadline: 2 * time.Second, breaking: true}}
	for _, stamped := range []bool{true, false} {
		value := documentText{last: 12, leases: leases, stamped: stamped, expired: "c.z"}.bytes()
		want := slices.Clone(leases)
		for i := range want {
			if !stamped {
				want[i].stamp = 0
			}
		}
		d, err := readDocument(value)
		if err != nil || d.last != 12 || d.stamped != stamped || !slices.Equal(d.leases, want) || !d.expired["c.z"] || len(d.expired) != 1 {
			t.Errorf("%+v, %v", d, err)
		}
		for n := 1; n < len(value); n++ {
			if _, err := readDocument(value[:n]); err == nil {
				t.Errorf("the first %d of %d bytes were read", n, len(value))
			}
		}
		if _, err := readDocument(append(value, 0)); err == nil {
			t.Error("a document with a byte too many was read")
		}
	}
	if d, err := readDocument(nil); err != nil || len(d.leases) > 0 {
		t.Errorf("no document: %+v, %v", d, err)
	}
}

// The golden files of the library's encoding are read.
func TestGoldenRecordsAreRead(t *testing.T) {
	for _, name := range []string{"encoding_v1.hex", "encoding_v2.hex"} {
		text, err := os.ReadFile("../../internal/queue/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		record, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(err)
		}
		d, err := readDocument(append(append([]byte{2}, make([]byte, 8+3)...), record...))
		if err != nil || len(d.leases) == 0 || d.last == 0 || d.leases[0].token == 0 {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// copied is a store in memory of which the documents of resources are recorded.
type copied struct {
	*castest.Memory
	mu     sync.Mutex
	ledger *Ledger
	names  map[string]bool
}

// Swap implements cas.DocumentStore.
func (c *copied) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	c.mu.Lock() // in the order of the store
	defer c.mu.Unlock()
	outs, err := c.Memory.Swap(ctx, changes)
	for i, o := range outs {
		if o.Swapped && changes[i].Key.Space == cas.Resources {
			at := instant(c.ledger.now())
			c.names[changes[i].Key.Name] = true
			c.ledger.apply(version{resource: changes[i].Key.Name, made: at, counted: at, value: changes[i].Value})
		}
	}
	return outs, err
}

// What a Ledger reads from documents is what the library says that it has stored.
func TestDocumentsOfTheLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &copied{Memory: castest.NewMemory(), ledger: New("app", time.Now()), names: map[string]bool{}}
		c, err := holdfast.New(cas.New(store, 0), holdfast.WithPrefix("app"), holdfast.WithName("stockd"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var held []*holdfast.Lease
		take := func(l *holdfast.Lease, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
		}
		take(c.Mutex("m", holdfast.WithReason("nightly"), holdfast.WithTTL(time.Second)).Lock(t.Context()))
		s := c.Semaphore("s", 5)
		take(s.Acquire(t.Context(), 2))
		take(s.Acquire(t.Context(), 1))
		take(c.RWMutex("rw").RLock(t.Context()))
		time.Sleep(10 * time.Second) // renewals
		if err := c.Break(t.Context(), "s", held[2].HolderID()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"m", "s", "rw"} {
			snapshot, err := c.Snapshot(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // a renewal may be due at this instant
			r := store.ledger.resources[name]
			if len(snapshot.Holders) != len(r.leases) || len(r.leases) == 0 {
				t.Errorf("%s: %d leases, and the library has %d", name, len(r.leases), len(snapshot.Holders))
			}
			for _, h := range snapshot.Holders {
				if is := r.leases[h.ID]; is.token != h.Token || is.stamp == 0 || is.deadline-store.ledger.now() < h.TTL-time.Millisecond {
					t.Errorf("%s: lease %s has %+v, and the library token %d and TTL %v", name, h.ID, is, h.Token, h.TTL)
				}
			}
		}
		for _, l := range held {
			_ = l.Release(t.Context()) // one of them is broken
		}
		for name := range store.names {
			if r := store.ledger.resources[name]; len(r.leases) > 0 {
				t.Errorf("%s: %d leases after the release", name, len(r.leases))
			}
		}
		if len(store.ledger.wrong) > 0 {
			t.Error(store.ledger.wrong)
		}
		if changes := store.ledger.of("m", held[0].HolderID()); len(changes) != 1 || len(changes[0]) < 20 {
			t.Errorf("%d changes of a lease of 1 s that was renewed for 10 s", len(changes))
		}
	})
}
