package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// Demote lets parked readers in at once, and no writer; token and deadline stay.
func TestDemoteWakesParkedReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), t.Context()
		w := mustLock(t, newClient(t, e).RWMutex("x").Lock, ctx)
		others := newClient(t, e).RWMutex("x")
		var readers []<-chan result
		for range 3 {
			readers = append(readers, lockSoon(ctx, others.RLock))
			synctest.Wait()
		}
		token, deadline, start := w.Token(), w.Deadline(), time.Now()
		if err := w.Demote(ctx); err != nil {
			t.Fatal(err)
		}
		for _, r := range readers {
			got := <-r
			if got.err != nil || got.at != start {
				t.Fatalf("a parked reader: %v, %v after the Demote", got.err, got.at.Sub(start))
			}
			defer mustRelease(t, got.lease)
		}
		if w.Token() != token || w.Deadline() != deadline || w.Err() != nil {
			t.Errorf("token %d, deadline %v, %v: want %d, %v and no error", w.Token(), w.Deadline(), w.Err(), token, deadline)
		}
		if _, err := others.TryLock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("a writer among readers: %v", err)
		}
		if err := w.Demote(ctx); err != nil {
			t.Errorf("once more: %v", err)
		}
		time.Sleep(time.Minute) // virtual: it is renewed as before
		mustRelease(t, w)
	})
}

// Only the writer's lease of an RWMutex, and only by itself, can be demoted.
func TestDemoteOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		c := newClient(t, memory.New())
		rw := c.RWMutex("rw", holdfast.WithReentrancy())
		for name, get := range map[string]func() (*holdfast.Lease, error){
			"mutex":     func() (*holdfast.Lease, error) { return c.Mutex("m").Lock(ctx) },
			"semaphore": func() (*holdfast.Lease, error) { return c.Semaphore("s", 5).Acquire(ctx, 5) },
			"reader":    func() (*holdfast.Lease, error) { return rw.RLock(ctx) },
		} {
			l, err := get()
			if err != nil {
				t.Fatal(err)
			}
			wantErr(t, l.Demote(ctx), holdfast.ErrNotHeld)
			if l.Err() != nil {
				t.Errorf("%s: the lease is %v", name, l.Err())
			}
			mustRelease(t, l)
			wantErr(t, l.Demote(ctx), holdfast.ErrNotHeld)
		}
		w := mustLock(t, rw.Lock, ctx)
		again := mustLock(t, rw.Lock, w.Context())
		wantErr(t, w.Demote(ctx), holdfast.ErrNotHeld)
		mustRelease(t, again)
		if err := w.Demote(ctx); err != nil {
			t.Fatal(err)
		}
		// What is left is a reader's: it is entered again as such only.
		mustNotLock(t, rw.Lock, w.Context(), holdfast.ErrDeadlock)
		again = mustLock(t, rw.RLock, w.Context())
		mustRelease(t, again)
		mustRelease(t, w)
		wantErr(t, w.Demote(ctx), holdfast.ErrNotHeld, holdfast.ErrReleased)
	})
}

// A Demote finds out that the lease was lost, and rides out a lost reply.
func TestDemoteInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := newFaulty(), t.Context()
		c := newClient(t, e)
		lock := func() *holdfast.Lease {
			w := mustLock(t, c.RWMutex("x").Lock, ctx)
			return w
		}
		w := lock()
		fails := 2
		e.Set(func() {
			e.OnResize = func(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
				if fails--; fails >= 0 { // done, but the reply is lost
					_ = e.Engine.Resize(ctx, res, h, weight)
					return down(ctx)
				}
				return e.Engine.Resize(ctx, res, h, weight)
			}
		})
		if err := w.Demote(ctx); err != nil {
			t.Errorf("two lost replies: %v", err)
		}
		mustRelease(t, w)

		w = lock()
		fails = 1 << 20
		wantErr(t, w.Demote(ctx), holdfast.ErrUnavailable)
		if w.Err() != nil {
			t.Errorf("the lease is %v", w.Err())
		}
		fails = 0
		if err := w.Demote(ctx); err != nil {
			t.Errorf("called again: %v", err)
		}
		mustRelease(t, w)

		w = lock()
		e.Set(func() {
			e.OnResize = func(context.Context, engine.Resource, engine.Held, int) error {
				return &engine.NotHeldError{Cause: engine.CauseExpired}
			}
		})
		wantLost(t, w.Demote(ctx), holdfast.LostExpired)
		wantLost(t, w.Err(), holdfast.LostExpired)
	})
}

// With LocalOnly a demoted writer holds the local lock together with the readers of its
// client, whether or not the store granted the lease.
func TestDemoteLetsInReadersOfTheClientWithLocalOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		rw := newClient(t, memory.New()).RWMutex("x", localOnly)
		w := mustLock(t, rw.Lock, ctx)
		waits := lockSoon(ctx, rw.RLock)
		synctest.Wait()
		if err := w.Demote(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case got := <-waits:
			if got.err != nil {
				t.Fatal(got.err)
			}
			mustRelease(t, got.lease)
		default:
			t.Error("the reader that waits is kept out")
		}
		l, err := rw.TryRLock(ctx)
		if err != nil {
			t.Errorf("TryRLock beside a demoted writer: %v", err)
		} else {
			mustRelease(t, l)
		}
		mustRelease(t, w)
	})
}

// If Demote finds that the lease is broken, the lease is lost as by any break: hooks are
// called, and the holder's Release releases it.
func TestDemoteOfABrokenLeaseReleasesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx, lost := memory.New(), t.Context(), 0
		hook := lostHook(func(*holdfast.LostError) { lost++ })
		rw := newClient(t, e, holdfast.WithHooks(hook)).RWMutex("x")
		l := mustLock(t, rw.Lock, ctx)
		h := look(t, e, "x").Holders[0]
		if err := e.Break(ctx, engine.Resource{Prefix: holdfast.DefaultPrefix, Name: "x"}, engine.Break{ID: h.ID}); err != nil {
			t.Fatal(err)
		}
		if err := l.Demote(ctx); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got %v, want a lost lease", err)
		}
		if lost != 1 {
			t.Errorf("the hook was called for %d losses, want 1", lost)
		}
		if err := l.Release(ctx); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Release: got %v, want a lost lease", err)
		}
		start := time.Now()
		next := mustLock(t, rw.Lock, ctx)
		if waited := time.Since(start); waited > 2*time.Second {
			t.Errorf("the next got it after %v", waited)
		}
		mustRelease(t, next)
	})
}
