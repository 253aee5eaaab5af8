package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// Whatever happens to the renewals, the holder's context is cancelled before the
// engine's own deadline, and so before another grant is possible.
func TestHolderIsNotifiedBeforeTheNextGrant(t *testing.T) {
	faults := map[string]func(e *faulty){
		"cut off": func(e *faulty) { e.All(down) },
		"hung":    func(e *faulty) { e.All(hang) },
		"renewals denied": func(e *faulty) {
			e.Set(func() {
				e.OnRenew = func(c context.Context, b []engine.Renewal) []error { return slices.Repeat([]error{denied(c)}, len(b)) }
			})
		},
		"answers lost": func(e *faulty) {
			e.Set(func() {
				e.OnRenew = func(c context.Context, b []engine.Renewal) []error {
					e.Engine.Renew(c, b)
					return slices.Repeat([]error{down(c)}, len(b))
				}
			})
		},
	}
	for name, fault := range faults {
		for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 15 * time.Second, time.Hour, 24 * time.Hour} {
			t.Run(fmt.Sprint(name, " ", ttl), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newFaulty()
					l := mustLock(t, newClient(t, e).Mutex("x", holdfast.WithTTL(ttl)).Lock, context.Background())
					time.Sleep(ttl) // some renewals get through
					fault(e)
					<-l.Context().Done()
					notified := time.Now()
					wantLost(t, context.Cause(l.Context()), holdfast.LostUnreachable)
					wantErr(t, l.Err(), holdfast.ErrLost)
					left := engine.Snapshot{}
					if s := look(t, e.Engine, "x"); len(s.Holders) == 1 {
						left = s
					} else if name != "renewals denied" && name != "answers lost" {
						t.Fatal("notified after the store's deadline")
					}
					if len(left.Holders) == 1 && left.Holders[0].TTL <= 0 {
						t.Error("notified after the store's deadline")
					}
					// Nothing is extended behind the holder's back for long.
					e.All(nil)
					time.Sleep(ttl + time.Second)
					synctest.Wait()
					wantEmpty(t, e, "x")
					if time.Since(notified) > 2*ttl+2*time.Second {
						t.Error("took too long")
					}
				})
			})
		}
	}
}

// Two clients, one of them cut off: the windows in which each may act never
// overlap.
func TestCutOffHolderAndItsSuccessor(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			e := newFaulty()
			other := newFaulty()
			other.Engine = e.Engine // the same store over another network
			l := mustLock(t, newClient(t, e).Mutex("x", holdfast.WithTTL(ttl)).Lock, context.Background())
			next := lockSoon(context.Background(), newClient(t, other).Mutex("x", holdfast.WithTTL(ttl)).Lock)
			synctest.Wait()
			e.All(hang)
			start := time.Now()
			<-l.Context().Done()
			notified := time.Now()
			r := wantGrant(t, next)
			if !notified.Before(r.at) {
				t.Errorf("%v: notified at %v, the next was granted at %v", ttl, notified.Sub(start), r.at.Sub(start))
			}
			if waited := r.at.Sub(start); waited > ttl+20*time.Millisecond {
				t.Errorf("%v: the next waited %v", ttl, waited)
			}
			if r.lease.Token() <= l.Token() {
				t.Error("tokens do not increase")
			}
			mustRelease(t, r.lease)
			e.All(nil)
		})
	}
}

// A lost lease is released in the store only after the margin, although the client could
// release it at once, so that a holder that is scheduled late can stop first. Close does
// not wait for it.
func TestLostLeaseIsReleasedAfterTheMargin(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newFaulty()
			c := newClient(t, e)
			l := mustLock(t, c.Mutex("x", holdfast.WithTTL(2*time.Second), holdfast.WithoutRenewal()).Lock, context.Background())
			next := lockSoon(context.Background(), newClient(t, e).Mutex("x").Lock)
			<-l.Context().Done()
			notified := time.Now()
			if closes {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			r := wantGrant(t, next)
			switch after := r.at.Sub(notified); {
			case !closes && after < 60*time.Millisecond:
				t.Errorf("the next holder was in %v after the first was notified", after)
			case closes && after > 10*time.Millisecond:
				t.Errorf("Close kept the lease for %v", after)
			}
			mustRelease(t, r.lease)
		})
	}
}

// The trust window counts from when the request was sent, however long its
// answer took.
func TestWindowCountsFromTheSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.Set(func() {
			e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				a, err := e.Engine.Acquire(ctx, r)
				time.Sleep(3 * time.Second)
				return a, err
			}
			e.OnRenew = func(ctx context.Context, b []engine.Renewal) []error {
				errs := e.Engine.Renew(ctx, b)
				time.Sleep(time.Second)
				return errs
			}
		})
		sent := time.Now()
		l := mustLock(t, newClient(t, e).Mutex("x", holdfast.WithTTL(15*time.Second)).Lock, context.Background())
		if open := l.Deadline().Sub(sent); open != 15*time.Second-320*time.Millisecond {
			t.Errorf("the window ends %v after the request was sent", open)
		}
		for l.Deadline().Sub(sent) < 15*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		if left := time.Until(l.Deadline()); left > 14*time.Second-300*time.Millisecond {
			t.Errorf("after a renewal that took a second %v are left", left)
		}
		mustRelease(t, l)
	})
}

// After a loss the lease is released in the store as soon as that can be reached, also
// if a renewal whose answer was lost had extended it.
func TestLostLeaseIsReleasedInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		m := c.Mutex("x", holdfast.WithTTL(time.Minute))
		l := mustLock(t, m.Lock, context.Background())
		e.Set(func() {
			e.OnRenew = func(ctx context.Context, b []engine.Renewal) []error {
				e.Engine.Renew(ctx, b)
				return slices.Repeat([]error{down(ctx)}, len(b))
			}
		})
		<-l.Done()
		e.All(nil)
		time.Sleep(2 * time.Second)
		wantEmpty(t, e.Engine, "x")
		mustRelease(t, mustLock(t, m.Lock, context.Background()))
	})
}

// unreleased counts the releases that the store never answered.
type unreleased struct{ n atomic.Int64 }

func (g *unreleased) CleanupFailed(holdfast.CleanupFailedEvent) { g.n.Add(1) }

// A release is retried until the TTL is over, not only until the pause before a retry would pass its end: a lease of 5 s was left at 4.3 s.
func TestAReleaseIsRetriedUntilTheTTL(t *testing.T) {
	const ttl = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		e, h := newFaulty(), &unreleased{}
		c := newClient(t, e, holdfast.WithHooks(h))
		all := lockMany(t, c, 100, holdfast.WithTTL(ttl), holdfast.WithoutTenure(), holdfast.WithoutRenewal())
		e.All(down)
		start := time.Now()
		for _, l := range all {
			go func() { _ = l.Release(context.Background()) }()
		}
		time.Sleep(time.Until(start.Add(ttl - time.Millisecond)))
		synctest.Wait()
		if n := int(h.n.Load()); n > 0 {
			t.Errorf("%d releases were given up before the TTL was over", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := int(h.n.Load()); n != len(all) {
			t.Errorf("%d of %d releases were given up after the TTL", n, len(all))
		}
	})
}

// A lease with a long TTL is released when the store responds again, however late.
func TestAReleaseOfALongLeaseIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		l := mustLock(t, newClient(t, e).Mutex("x", holdfast.WithTTL(time.Hour)).Lock, t.Context())
		e.All(down)
		wantErr(t, l.Release(t.Context()), holdfast.ErrUnavailable)
		time.Sleep(10 * time.Minute)
		if n := e.Count("release"); n > 300 {
			t.Errorf("%d tries in ten minutes", n)
		}
		e.All(nil)
		time.Sleep(15 * time.Second)
		wantEmpty(t, e, "x")
	})
}

// A temporary failure is reported to hooks only, and the lease is kept.
func TestJeopardyThenRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		h := &recorder{}
		l := mustLock(t, newClient(t, e, holdfast.WithHooks(h)).Mutex("x", holdfast.WithTTL(15*time.Second)).Lock, context.Background())
		e.All(down)
		time.Sleep(12 * time.Second)
		e.All(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		failed, renewed := 0, 0
		for _, r := range h.renews() {
			if r.Resource != "x" || r.Token != l.Token() || r.Left <= 0 {
				t.Errorf("hook: %+v", r)
			}
			if r.Err == nil {
				renewed++
			} else if failed++; !errors.Is(r.Err, holdfast.ErrUnavailable) {
				t.Errorf("hook: %v", r.Err)
			}
		}
		if failed < 2 || renewed < 700 || len(h.losses()) != 0 {
			t.Errorf("%d failed, %d renewed, %d losses", failed, renewed, len(h.losses()))
		}
		mustRelease(t, l)
	})
}

func TestBreakIsReportedAtOnceByAWakeup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, operator := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.Mutex("x", holdfast.WithTTL(15*time.Second)).Lock, context.Background())
		time.Sleep(6 * time.Second) // one renewal: it listens now
		if err := operator.Break(context.Background(), "x", l.HolderID()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-l.Done()
		wantLost(t, l.Err(), holdfast.LostBroken)
		if took := time.Since(start); took > 0 {
			t.Errorf("notified after %v", took)
		}

		e.Set(func() { e.OnWake = func(engine.Wakeup) bool { return false } })
		l = mustLock(t, c.Mutex("x", holdfast.WithTTL(15*time.Second)).Lock, context.Background())
		if err := operator.Break(context.Background(), "x", l.HolderID()); err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		<-l.Done()
		wantLost(t, l.Err(), holdfast.LostBroken)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("without wake-ups, notified after %v; want TTL/3", took)
		}
		wantErr(t, l.Release(context.Background()), holdfast.ErrLost)
		time.Sleep(time.Second) // its client has given it back
		wantErr(t, operator.Break(context.Background(), "x", l.HolderID()), holdfast.ErrNotHeld)
	})
}

// Without renewal no answer of the store reports that an operator broke the lease, so the
// wake-up must report it.
func TestBreakIsReportedWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		l := mustLock(t, newClient(t, e).Mutex("x", holdfast.WithTTL(time.Hour), holdfast.WithoutRenewal()).Lock, context.Background())
		time.Sleep(time.Second)
		synctest.Wait()
		res := engine.Resource{Prefix: holdfast.DefaultPrefix, Name: "x"}
		if err := e.Break(context.Background(), res, engine.Break{ID: l.HolderID()}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantLost(t, l.Err(), holdfast.LostBroken)
	})
}
