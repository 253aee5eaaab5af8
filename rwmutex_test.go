package holdfast_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A reader that locks for writing would wait for itself: it gets ErrDeadlock at once,
// with and without re-entry, and keeps its lease.
func TestUpgradeIsDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newClient(t, memory.New()), t.Context()
		for _, opts := range [][]holdfast.LockOption{nil, {holdfast.WithReentrancy()}} {
			rw := c.RWMutex("x", opts...)
			r := mustLock(t, rw.RLock, ctx)
			start := time.Now()
			mustNotLock(t, rw.Lock, r.Context(), holdfast.ErrDeadlock, holdfast.ErrNotAcquired)
			mustNotLock(t, rw.TryLock, r.Context(), holdfast.ErrDeadlock)
			wantErr(t, rw.Do(r.Context(), func(context.Context) error { return nil }), holdfast.ErrDeadlock)
			if took := time.Since(start); took != 0 {
				t.Errorf("it took %v", took)
			}
			if r.Err() != nil {
				t.Errorf("the reader's lease is %v", r.Err())
			}
			mustRelease(t, r)
		}
	})
}

// Readers that arrive one after the other do not starve a writer: later readers wait.
func TestWriterAmongLoopingReaders(t *testing.T) {
	notStarved(t, func(c *holdfast.Client) (doFunc, lockFunc) {
		rw := c.RWMutex("x")
		return rw.RDo, rw.Lock
	})
}

// Writers that acquire in loops starve no reader, of a process that shares leases or alone: a reader waits for the
// writers that were there before it, and for the readers between them.
func TestReaderAmongLoopingWriters(t *testing.T) {
	const writers, writing, reading = 4, 10 * time.Millisecond, time.Millisecond
	const most = writers*(writing+2*reading) + writing
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		loop := func(do doFunc, hold time.Duration, waited func(time.Duration)) {
			all.Go(func() {
				for ctx.Err() == nil {
					from := time.Now()
					_ = do(ctx, func(context.Context) error {
						waited(time.Since(from))
						time.Sleep(hold)
						return nil
					})
				}
			})
		}
		for range writers {
			loop(newClient(t, e).RWMutex("x").Do, writing, func(time.Duration) {})
		}
		shared, alone := newClient(t, e).RWMutex("x"), newClient(t, e).RWMutex("x")
		var reads int
		var mu sync.Mutex
		var longest time.Duration
		read := func(waited time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			reads, longest = reads+1, max(longest, waited)
		}
		for range 8 {
			loop(shared.RDo, reading, read)
		}
		loop(alone.RDo, reading, read)
		time.Sleep(10 * time.Second)
		stop()
		all.Wait()
		if reads < 1000 || longest > most {
			t.Errorf("%d reads, of which one waited for %v; want at most %v", reads, longest, most)
		}
		t.Logf("%d reads, the longest wait %v of %v", reads, longest, most)
	})
}

type doFunc = func(context.Context, func(context.Context) error) error

// notStarved checks that a request for the whole capacity waits for no longer than three times what
// eight callers hold for, which acquire and release light leases in loops.
func notStarved(t *testing.T, methods func(c *holdfast.Client) (light doFunc, heavy lockFunc)) {
	const hold = 100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		looping, stop := context.WithCancel(ctx)
		for i := range 8 {
			light, _ := methods(newClient(t, e))
			go func() {
				time.Sleep(time.Duration(i) * hold / 8) // they never all pause at once
				for looping.Err() == nil {
					_ = light(looping, func(context.Context) error {
						time.Sleep(hold)
						return nil
					})
				}
			}()
		}
		_, heavy := methods(newClient(t, e))
		for range 20 {
			time.Sleep(7 * hold / 3)
			start := time.Now()
			l := mustLock(t, heavy, ctx)
			if took := time.Since(start); took > 3*hold {
				t.Errorf("the heavy request waited for %v, others hold for %v", took, hold)
			}
			mustRelease(t, l)
		}
		stop()
		time.Sleep(time.Second)
		wantEmpty(t, e, "x")
	})
}

// The lease of a dead reader expires by its own TTL, although another reader renews.
func TestDeadReaderGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := newFaulty(), t.Context()
		store := e.Engine
		ttl := holdfast.WithTTL(3 * time.Second)
		dead := mustLock(t, newClient(t, e).RWMutex("x", ttl).RLock, ctx)
		live := mustLock(t, newClient(t, store).RWMutex("x", ttl).RLock, ctx)
		e.All(down)
		time.Sleep(4 * time.Second)
		if s := look(t, store, "x"); len(s.Holders) != 1 || s.Holders[0].ID != live.HolderID() {
			t.Errorf("holders %+v, want the living reader alone", s.Holders)
		}
		if live.Err() != nil || !errors.Is(dead.Err(), holdfast.ErrLost) {
			t.Errorf("the living reader: %v, the dead: %v", live.Err(), dead.Err())
		}
		mustRelease(t, live)
		w := mustLock(t, newClient(t, store).RWMutex("x", ttl).TryLock, ctx)
		mustRelease(t, w)
		e.All(nil)
	})
}

// Do holds a writer's lease and RDo a reader's, and a failed TryRLock leaves nothing behind.
func TestRWMutexDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), t.Context()
		rw, other := newClient(t, e).RWMutex("x"), newClient(t, e).RWMutex("x")
		err := rw.RDo(ctx, func(context.Context) error {
			if _, err := other.TryLock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Errorf("a writer beside a reader: %v", err)
			}
			r, err := other.TryRLock(ctx)
			if err != nil {
				return err
			}
			return r.Release(ctx)
		})
		if err != nil {
			t.Fatal(err)
		}
		err = rw.Do(ctx, func(context.Context) error {
			_, err := other.TryRLock(ctx)
			if held, ok := errors.AsType[*holdfast.HeldError](err); !ok || held.Waiters != 0 {
				t.Errorf("a reader beside a writer: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantEmpty(t, e, "x")
		mustNotLock(t, newClient(t, e).RWMutex("").RLock, ctx, holdfast.ErrInvalid)
	})
}
