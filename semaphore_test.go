package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

func TestSemaphoreLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newClient(t, memory.New()), t.Context()
		s := c.Semaphore("x", 3)
		acquire := func(s *holdfast.Semaphore, weight int, want error) {
			t.Helper()
			_, err := s.Acquire(ctx, weight)
			wantErr(t, err, want)
			_, err = s.TryAcquire(ctx, weight)
			wantErr(t, err, want)
			wantErr(t, s.Do(ctx, weight, func(context.Context) error { return nil }), want)
		}
		acquire(s, 4, holdfast.ErrTooHeavy)
		acquire(s, 0, holdfast.ErrInvalid)
		acquire(s, -1, holdfast.ErrInvalid)
		acquire(c.Semaphore("x", 0), 1, holdfast.ErrInvalid)
		acquire(c.Semaphore("x", holdfast.MaxCapacity+1), 1, holdfast.ErrInvalid)
		l := mustLock(t, units(s, 2), ctx)
		acquire(c.Semaphore("x", 4), 1, holdfast.ErrMismatch)
		mustNotLock(t, c.Mutex("x").TryLock, ctx, holdfast.ErrMismatch)
		mustRelease(t, l)
	})
}

// A lease of the caller's own counts as any other's: no deadlock is suspected.
func TestSemaphoreUnderItsOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), t.Context()
		s := newClient(t, e).Semaphore("x", 3, holdfast.WithReentrancy())
		first := mustLock(t, units(s, 2), ctx)
		second := mustLock(t, units(s, 1), first.Context())
		if first.Token() == second.Token() {
			t.Errorf("both have token %d", first.Token())
		}
		brief, cancel := context.WithTimeout(first.Context(), time.Second)
		defer cancel()
		mustNotLock(t, units(s, 1), brief, holdfast.ErrNotAcquired, context.DeadlineExceeded)
		mustRelease(t, first)
		mustRelease(t, second)
		wantEmpty(t, e, "x")
	})
}

// All units of dead holders are free again within the TTL.
func TestUnitsOfDeadHoldersReturn(t *testing.T) {
	const ttl = 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		e, ctx := newFaulty(), t.Context()
		store := e.Engine
		c := newClient(t, e)
		for _, weight := range []int{1, 2, 4} {
			if _, err := c.Semaphore("x", 7, holdfast.WithTTL(ttl)).Acquire(ctx, weight); err != nil {
				t.Fatal(err)
			}
		}
		e.All(down)
		start := time.Now()
		l := mustLock(t, units(newClient(t, store).Semaphore("x", 7), 7), ctx)
		if took := time.Since(start); took > ttl+100*time.Millisecond {
			t.Errorf("it took %v to have all of it", took)
		}
		mustRelease(t, l)
		e.All(nil)
	})
}

// A heavy request is served in its turn, although lighter ones would fit.
func TestHeavyRequestIsNotPassed(t *testing.T) {
	notStarved(t, func(c *holdfast.Client) (doFunc, lockFunc) {
		s := c.Semaphore("x", 4)
		light := func(ctx context.Context, fn func(context.Context) error) error { return s.Do(ctx, 1, fn) }
		return light, units(s, 4)
	})
}
