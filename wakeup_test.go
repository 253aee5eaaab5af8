package holdfast_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// waitBehind holds a lease for a while with one waiter of another client behind
// it, and returns how long after the release the waiter had it.
func waitBehind(t *testing.T, e *faulty, hold time.Duration) time.Duration {
	t.Helper()
	c, other := newClient(t, e), newClient(t, e)
	l := mustLock(t, c.Mutex("x").Lock, context.Background())
	waiter := lockSoon(context.Background(), other.Mutex("x").Lock)
	time.Sleep(hold)
	synctest.Wait()
	start := time.Now()
	mustRelease(t, l)
	r := wantGrant(t, waiter)
	if r.lease.Err() != nil || r.lease.Token() <= l.Token() {
		t.Errorf("lease: %v, token %d after %d", r.lease.Err(), r.lease.Token(), l.Token())
	}
	time.Sleep(time.Minute) // the claim window is over, the lease is kept
	if r.lease.Err() != nil {
		t.Error(r.lease.Err())
	}
	mustRelease(t, r.lease)
	wantEmpty(t, e.Engine, "x")
	return r.at.Sub(start)
}

func TestWakeupBringsTheGrantAtOnce(t *testing.T) {
	for _, hold := range []time.Duration{10 * time.Millisecond, 900 * time.Millisecond, 10 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			if took := waitBehind(t, newFaulty(), hold); took > 0 {
				t.Errorf("after %v: the hand-off took %v", hold, took)
			}
		})
	}
}

// Without wake-ups a hand-off costs at most one poll.
func TestWakeupLost(t *testing.T) {
	for name, spoil := range map[string]func(e *faulty){
		"wake-ups dropped": func(e *faulty) { e.OnWake = func(engine.Wakeup) bool { return false } },
		"listen fails":     func(e *faulty) { e.OnListen = down },
		"listen hangs":     func(e *faulty) { e.OnListen = hang },
	} {
		t.Run(name, func(t *testing.T) {
			for _, hold := range []time.Duration{10 * time.Millisecond, 1500 * time.Millisecond, 20 * time.Second} {
				synctest.Test(t, func(t *testing.T) {
					e := newFaulty()
					spoil(e)
					most := 1100 * time.Millisecond
					if name == "listen hangs" {
						most += 500 * time.Millisecond // a waiter holds back its poll for the stream
					}
					if took := waitBehind(t, e, hold); took > most {
						t.Errorf("after %v: the hand-off took %v", hold, took)
					}
				})
			}
		})
	}
}

// A grant that is sent while the stream is being opened is missed, so the waiter repeats
// its request as soon as the stream is live.
func TestGrantWhileTheStreamOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.OnListen = func(context.Context) error { time.Sleep(300 * time.Millisecond); return nil }
		c, other := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		waiter := lockSoon(context.Background(), other.Mutex("x").Lock)
		time.Sleep(100 * time.Millisecond)
		mustRelease(t, l)
		start := time.Now()
		r := <-waiter
		if r.err != nil || r.at.Sub(start) > 200*time.Millisecond {
			t.Fatalf("err %v, took %v", r.err, r.at.Sub(start))
		}
		mustRelease(t, r.lease)
	})
}

func TestListenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.OnListen = denied
		c, other := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		mustNotLock(t, other.Mutex("x").Lock, context.Background(), holdfast.ErrDenied)
		if n := len(look(t, e.Engine, "x").Waiters); n != 0 {
			t.Errorf("%d left in the queue", n)
		}
		time.Sleep(time.Hour) // renewals do not insist either
		if n := e.Count("listen"); n > 3 {
			t.Errorf("%d tries to listen", n)
		}
		// Somebody mends the ACL: waits work again, in the same client.
		e.Set(func() { e.OnListen = nil })
		waiter := lockSoon(context.Background(), other.Mutex("x").Lock)
		synctest.Wait()
		mustRelease(t, l)
		r := wantGrant(t, waiter)
		mustRelease(t, r.lease)
	})
}

func TestListenFailsThenWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.OnListen = down
		c, other := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		waiter := lockSoon(context.Background(), other.Mutex("x").Lock)
		time.Sleep(10 * time.Second)
		e.Set(func() { e.OnListen = nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		mustRelease(t, l)
		start := time.Now()
		r := <-waiter
		if r.err != nil || r.at.After(start) {
			t.Fatalf("err %v, the wake-up took %v", r.err, r.at.Sub(start))
		}
		mustRelease(t, r.lease)
	})
}

// After a Resync every waiter repeats its request: a wake-up may have been lost.
func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, other := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		held := mustLock(t, other.Mutex("y").Lock, context.Background())
		waiter := lockSoon(context.Background(), other.Mutex("x").Lock)
		synctest.Wait()
		var deliver func(engine.Wakeup)
		e.Set(func() { deliver = e.Deliver }) // only the waiter listens as yet
		time.Sleep(1300 * time.Millisecond)
		synctest.Wait()
		e.Set(func() { e.OnWake = func(engine.Wakeup) bool { return false } })
		mustRelease(t, l)
		synctest.Wait()
		e.Set(func() { e.OnWake = nil })
		start := time.Now()
		deliver(engine.Wakeup{Kind: engine.Resync})
		r := <-waiter
		if r.err != nil || r.at.After(start) {
			t.Fatalf("err %v, took %v after the Resync", r.err, r.at.Sub(start))
		}
		if held.Err() != nil {
			t.Error("a Resync ended a lease")
		}
		mustRelease(t, r.lease)
		mustRelease(t, held)
	})
}

// A grant that was pushed and got stuck on the way is not trusted for longer
// than the store keeps it.
func TestPushedGrantThatComesLate(t *testing.T) {
	for _, late := range []time.Duration{500 * time.Millisecond, 2900 * time.Millisecond, 3100 * time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			e := newFaulty()
			c, other, third := newClient(t, e), newClient(t, e), newClient(t, e)
			l := mustLock(t, c.Mutex("x").Lock, context.Background())
			waiter := lockSoon(context.Background(), other.Mutex("x").Lock)
			synctest.Wait()
			var deliver func(engine.Wakeup)
			e.Set(func() { deliver = e.Deliver }) // only the waiter listens as yet
			time.Sleep(1300 * time.Millisecond)
			synctest.Wait()
			e.Set(func() {
				e.OnWake = func(w engine.Wakeup) bool {
					time.AfterFunc(late, func() { deliver(w) })
					return false
				}
				e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
					return engine.Answer{}, down(ctx)
				}
				e.OnRenew = func(ctx context.Context, b []engine.Renewal) []error {
					return slices.Repeat([]error{down(ctx)}, len(b))
				}
			})
			mustRelease(t, l)
			time.Sleep(engine.ClaimWindow - time.Nanosecond) // the store drops the claim next
			synctest.Wait()
			var r result
			select {
			case r = <-waiter:
				if r.err == nil && r.lease.Err() == nil {
					t.Errorf("%v late: trusted until the store's deadline and beyond", late)
				}
				if late > time.Second && r.err == nil && r.lease.Deadline().Sub(r.at) > engine.ClaimWindow-late {
					t.Errorf("%v late: trusted until %v after it came", late, r.lease.Deadline().Sub(r.at))
				}
			default:
				if late < time.Second {
					t.Errorf("%v late: not accepted", late)
				}
			}
			e.Set(func() { e.OnAcquire, e.OnRenew, e.OnWake = nil, nil, nil })
			time.Sleep(late)
			if r.lease == nil {
				r = <-waiter
			}
			_ = r.lease.Release(context.Background())
			mustRelease(t, mustLock(t, third.Mutex("x").Lock, context.Background()))
			wantEmpty(t, e.Engine, "x")
		})
	}
}

// If the store lets nobody listen for a while, a lease that makes no other call hears of a break all the same.
func TestListensAgainForALeaseWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.Set(func() { e.OnListen = down })
		c, operator := newClient(t, e), newClient(t, e.Engine)
		l := mustLock(t, c.Mutex("x", holdfast.WithTTL(10*time.Minute), holdfast.WithoutRenewal()).Lock, t.Context())
		time.Sleep(time.Minute)
		e.Set(func() { e.OnListen = nil })
		time.Sleep(15 * time.Second)
		if s := c.Stats().Subscription; s != holdfast.SubscriptionLive {
			t.Errorf("the subscription is %v", s)
		}
		if err := operator.Break(t.Context(), "x", l.HolderID()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantLost(t, l.Err(), holdfast.LostBroken)
		wantErr(t, l.Release(t.Context()), holdfast.ErrLost)
	})
}
