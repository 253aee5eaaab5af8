package holdfast_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A client subscribes for its first waiter, and again for the next one if the store has refused.
func TestStatsOfTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, other := newClient(t, e), newClient(t, e)
		want := func(state holdfast.Subscription) {
			t.Helper()
			synctest.Wait()
			if s := c.Stats().Subscription; s != state {
				t.Errorf("the subscription is %q, want %q", s, state)
			}
		}
		answer := make(chan error)
		e.Set(func() { e.OnListen = func(context.Context) error { return <-answer } })
		foreign := mustLock(t, other.Mutex("x").Lock, context.Background())
		mustRelease(t, mustLock(t, c.Mutex("y").Lock, context.Background()))
		want(holdfast.SubscriptionNone)
		waiter := lockSoon(context.Background(), c.Mutex("x").Lock)
		want(holdfast.SubscriptionOpening)
		answer <- denied(context.Background())
		wantErr(t, (<-waiter).err, holdfast.ErrDenied)
		want(holdfast.SubscriptionDenied)
		waiter = lockSoon(context.Background(), c.Mutex("x").Lock)
		want(holdfast.SubscriptionOpening)
		answer <- nil
		want(holdfast.SubscriptionLive)
		mustRelease(t, foreign)
		mustRelease(t, wantGrant(t, waiter).lease)
	})
}

// A loss that the store reports is counted once, by its cause.
func TestStatsOfLosses(t *testing.T) {
	for cause, want := range map[engine.Cause]holdfast.Losses{
		engine.CauseExpired: {Expired: 1}, engine.CauseTaken: {Taken: 1}, engine.CauseDeleted: {Deleted: 1},
		engine.CauseBroken: {Broken: 1}, engine.CauseReleased: {Elsewhere: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newFaulty()
			c := newClient(t, e)
			l := mustLock(t, c.Mutex("x", holdfast.WithTTL(3*time.Second)).Lock, context.Background())
			e.Set(func() {
				e.OnRenew = func(_ context.Context, batch []engine.Renewal) []error {
					return slices.Repeat([]error{&engine.NotHeldError{Cause: cause}}, len(batch))
				}
			})
			<-l.Done() // at the first renewal
			_ = l.Release(context.Background())
			synctest.Wait()
			if s := c.Stats(); s.Losses != want || s.Leases != 0 {
				t.Errorf("%v: %+v, want %+v", l.Err(), s, want)
			}
		})
	}
}

func TestStatsAllocatesNothing(t *testing.T) {
	c := newClient(t, memory.New())
	mustLock(t, c.Mutex("x").Lock, context.Background())
	if n := testing.AllocsPerRun(200, func() { _ = c.Stats() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
