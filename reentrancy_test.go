package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestReentryKeepsTheTokenWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x", holdfast.WithReentrancy())
		outer := mustLock(t, m.Lock, context.Background())
		before := e.Count("acquire") + e.Count("renew") + e.Count("release")
		inner := mustLock(t, m.Lock, outer.Context())
		third := mustLock(t, m.TryLock, inner.Context())
		if inner.Token() != outer.Token() || third.Token() != outer.Token() || third.HolderID() != outer.HolderID() {
			t.Errorf("tokens %d, %d, %d", outer.Token(), inner.Token(), third.Token())
		}
		mustRelease(t, third)
		mustRelease(t, inner)
		if now := e.Count("acquire") + e.Count("renew") + e.Count("release"); now != before {
			t.Errorf("re-entry made %d calls", now-before)
		}
		if outer.Err() != nil || outer.Context().Err() != nil {
			t.Error("the outer lease ended with the inner ones")
		}
		mustRelease(t, outer)
		wantEmpty(t, e, "x")
	})
}

func TestReentryReleasedOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x", holdfast.WithReentrancy())
		outer := mustLock(t, m.Lock, context.Background())
		inner := mustLock(t, m.Lock, outer.Context())
		mustRelease(t, outer)
		if !errors.Is(outer.Err(), holdfast.ErrReleased) || inner.Err() != nil {
			t.Errorf("outer %v, inner %v", outer.Err(), inner.Err())
		}
		if len(look(t, e, "x").Holders) != 1 {
			t.Error("given back while the inner lease is held")
		}
		wantErr(t, outer.Release(context.Background()), holdfast.ErrNotHeld, holdfast.ErrReleased)
		if inner.Err() != nil || len(look(t, e, "x").Holders) != 1 {
			t.Error("a second release of the outer lease counted for the inner one")
		}
		mustRelease(t, inner)
		wantEmpty(t, e, "x")
	})
}

func TestReentryLostTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x", holdfast.WithReentrancy(), holdfast.WithTTL(time.Second))
		outer := mustLock(t, m.Lock, context.Background())
		inner := mustLock(t, m.Lock, outer.Context())
		e.All(down)
		<-inner.Context().Done()
		wantLost(t, outer.Err(), holdfast.LostUnreachable)
		wantLost(t, inner.Err(), holdfast.LostUnreachable)
		wantLost(t, context.Cause(inner.Context()), holdfast.LostUnreachable)
		e.All(nil)
		wantErr(t, inner.Release(context.Background()), holdfast.ErrLost)
		wantErr(t, outer.Release(context.Background()), holdfast.ErrLost)
		mustNotLock(t, m.Lock, outer.Context(), holdfast.ErrNotAcquired, holdfast.ErrLost)
	})
}

func TestReentryIsPerClientAndResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, other := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.Mutex("x", holdfast.WithReentrancy()).Lock, context.Background())
		mustNotLock(t, other.Mutex("x", holdfast.WithReentrancy()).TryLock, l.Context(), holdfast.ErrNotAcquired)
		y := mustLock(t, c.Mutex("y", holdfast.WithReentrancy()).Lock, l.Context())
		if y.HolderID() == l.HolderID() {
			t.Error("another resource was re-entered")
		}
		again := mustLock(t, c.Mutex("x", holdfast.WithReentrancy()).Lock, y.Context())
		if again.Token() != l.Token() {
			t.Error("not re-entered through the lease of another resource")
		}
		for _, lease := range []*holdfast.Lease{again, y, l} {
			mustRelease(t, lease)
		}
	})
}

// With tenure the next local caller gets the turn only after the last re-entrant lease
// is released.
func TestReentrantLeasesDelayTheHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x", holdfast.WithReentrancy())
		outer := mustLock(t, m.Lock, context.Background())
		inner := mustLock(t, m.Lock, outer.Context())
		next := lockSoon(context.Background(), m.Lock)
		mustRelease(t, outer)
		synctest.Wait()
		wantWaiting(t, next, "passed on too early")
		mustRelease(t, inner)
		r := <-next
		if r.err != nil || r.lease.Token() <= outer.Token() {
			t.Fatalf("next: %v, %v", r.lease, r.err)
		}
		mustRelease(t, r.lease)
	})
}

// A reader's lease is no mutex: one name used as two kinds is an error, and not
// an exclusive lease that others share.
func TestReentryIntoAnotherKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		read := mustLock(t, c.RWMutex("x", holdfast.WithReentrancy()).RLock, context.Background())
		mustNotLock(t, c.Mutex("x", holdfast.WithReentrancy()).Lock, read.Context(), holdfast.ErrMismatch)
		mustRelease(t, read)
		part := mustLock(t, units(c.Semaphore("x", 5), 1), context.Background())
		mustNotLock(t, c.Mutex("x", holdfast.WithReentrancy()).TryLock, part.Context(), holdfast.ErrMismatch)
		mustRelease(t, part)
	})
}

// What re-enters is the context: goroutines that share it are inside together.
// WithReentrancy says so.
func TestGoroutinesThatShareALeasesContextBothEnter(t *testing.T) {
	m := newClient(t, newFaulty()).Mutex("x", holdfast.WithReentrancy())
	outer := mustLock(t, m.Lock, context.Background())
	one, other := lockSoon(outer.Context(), m.Lock), lockSoon(outer.Context(), m.Lock)
	a, b := (<-one).lease, (<-other).lease // neither is released yet
	if a.Err() != nil || b.Err() != nil || a.Token() != b.Token() {
		t.Errorf("leases %v and %v, tokens %d and %d", a.Err(), b.Err(), a.Token(), b.Token())
	}
	mustRelease(t, a)
	mustRelease(t, b)
	mustRelease(t, outer)
}
