package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Copy copies the data of a store in the middle of its work, as a power failure would leave them, and
// uses the copy: what was acknowledged before is there. start makes the copy, and returns
// the target of a server that runs on it.
func Copy(t *testing.T, s *Store, start func() (target string)) {
	a, b := s.Client(t), s.Client(t)
	kept := lock(t, a, "kept", holdfast.WithTTL(time.Minute))
	done := func(context.Context) error { return nil }
	if ran, err := a.Once(t.Context(), "marked", time.Hour, done); !ran || err != nil {
		t.Fatalf("Once: %t, %v", ran, err)
	}
	var acknowledged atomic.Uint64 // the latest token that was released
	work, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for _, c := range []*holdfast.Client{a, b} {
		workers.Go(func() { takeTurns(t, work, c, &acknowledged) })
	}
	for range redistest.Scale(2, 20) {
		from := acknowledged.Load()
		redistest.Await(t, limit, "turns", func() bool { return acknowledged.Load() > from })
		before := acknowledged.Load()
		copied := s.At(start())
		c := copied.Client(t)

		snapshot, err := c.Snapshot(t.Context(), "kept")
		if err != nil {
			t.Fatal(err)
		}
		if len(snapshot.Holders) != 1 || snapshot.Holders[0].Token != kept.Token() {
			redistest.Broken(t, "the copy has %+v; want the holder of %d", snapshot, kept.Token())
		}
		if lease, err := c.Mutex("kept").TryLock(t.Context()); err == nil {
			redistest.Broken(t, "token %d was granted while %d was held", lease.Token(), kept.Token())
		} else if _, held := errors.AsType[*holdfast.HeldError](err); !held {
			t.Errorf("TryLock: %v", err)
		}
		if ran, err := c.Once(t.Context(), "marked", time.Hour, done); err != nil {
			t.Error(err)
		} else if ran {
			redistest.Broken(t, "what was marked is done again on the copy")
		}
		lease := lock(t, c, Name)
		if lease.Token() <= before {
			redistest.Broken(t, "the copy granted token %d after %d", lease.Token(), before)
		}
		requireFree(t, c, lease)
	}
	stop()
	workers.Wait()
	if err := kept.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// takeTurns takes turns until ctx ends, and stores the tokens.
func takeTurns(t testing.TB, ctx context.Context, c *holdfast.Client, acknowledged *atomic.Uint64) {
	for {
		lease, err := c.Mutex(Name, holdfast.WithTTL(TTL)).Lock(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.Errorf("Lock: %v", err)
			return
		}
		token := lease.Token()
		if last := acknowledged.Load(); token <= last && lease.Err() == nil {
			redistest.Broken(t, "token %d after %d", token, last)
		}
		err = lease.Release(context.WithoutCancel(ctx))
		if err == nil {
			acknowledged.Store(token)
		} else if !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("Release: %v", err)
		}
	}
}
