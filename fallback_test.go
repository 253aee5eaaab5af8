package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// flaky is a faulty engine of which a test can put out everything, also what the
// client looks at to see whether the store is back.
type flaky struct {
	*faulty

	mu   sync.Mutex
	dark func(ctx context.Context) error
	took int // looks
}

func newFlaky() *flaky { return &flaky{faulty: newFaulty()} }

// out gives every operation the same fault, or none with nil.
func (f *flaky) out(fault func(ctx context.Context) error) {
	f.All(fault)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dark = fault
}

func (f *flaky) Peek(ctx context.Context, res engine.Resource) (engine.Brief, error) {
	f.mu.Lock()
	fault := f.dark
	f.took++
	f.mu.Unlock()
	if fault != nil {
		return engine.Brief{}, fault(ctx)
	}
	return f.Engine.Peek(ctx, res)
}

func (f *flaky) looks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.took
}

var (
	failOpen  = holdfast.WithFallback(holdfast.FailOpen)
	localOnly = holdfast.WithFallback(holdfast.LocalOnly)
)

// wantFallback checks how a lease was granted, and its tokens.
func wantFallback(t testing.TB, l *holdfast.Lease, want holdfast.Fallback) {
	t.Helper()
	if got := l.Fallback(); got != want {
		t.Errorf("granted by %v; want %v", got, want)
	}
	for name, token := range l.Tokens() {
		if (token == 0) != (want != holdfast.FailClosed) {
			t.Errorf("%s: token %d with %v", name, token, want)
		}
	}
}

// timed runs f and returns how long it took.
func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func TestFallbackIsOffByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.out(down)
		m := newClient(t, e).Mutex("x")
		mustNotLock(t, m.TryLock, context.Background(), holdfast.ErrNotAcquired, holdfast.ErrUnavailable)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		mustNotLock(t, m.Lock, ctx, holdfast.ErrNotAcquired, holdfast.ErrUnavailable, context.DeadlineExceeded)
		if e.looks() > 0 {
			t.Error("a client without fallbacks watches the store")
		}
	})
}

func TestFailOpen(t *testing.T) {
	for name, fault := range map[string]func(context.Context) error{"down": down, "hang": hang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFlaky()
				e.out(fault)
				m := newClient(t, e).Mutex("x", failOpen)
				var l *holdfast.Lease
				took := timed(func() { l = mustLock(t, m.Lock, context.Background()) })
				if took < holdfast.FallbackTimeout || took > holdfast.FallbackTimeout+200*time.Millisecond {
					t.Errorf("it fell back after %v", took)
				}
				wantFallback(t, l, holdfast.FailOpen)
				time.Sleep(time.Hour)
				if l.Err() != nil || l.Context().Err() != nil || time.Until(l.Deadline()) <= 0 {
					t.Errorf("after an hour: %v, deadline %v", l.Err(), l.Deadline())
				}
				other := mustLock(t, m.Lock, context.Background()) // unlocked is unlocked
				wantFallback(t, other, holdfast.FailOpen)
				mustRelease(t, l)
				wantErr(t, l.Err(), holdfast.ErrReleased)
				wantErr(t, context.Cause(l.Context()), holdfast.ErrReleased)
				wantErr(t, l.Release(context.Background()), holdfast.ErrNotHeld)
				mustRelease(t, other)
			})
		})
	}
}

func TestFallbackDoesNotWaitEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.out(hang)
		c := newClient(t, e)
		mustRelease(t, mustLock(t, c.Mutex("x", failOpen).Lock, context.Background()))
		before := e.Count("acquire")
		took := timed(func() {
			for i := range 1000 {
				l := mustLock(t, c.Mutex(fmt.Sprint("x", i), failOpen).TryLock, context.Background())
				mustRelease(t, l)
				mustRelease(t, mustLock(t, c.Mutex("y", localOnly).Lock, context.Background()))
			}
		})
		if took > 0 || e.Count("acquire") != before {
			t.Errorf("2000 locks took %v and %d requests", took, e.Count("acquire")-before)
		}
		time.Sleep(time.Minute)
		if n := e.looks(); n < 25 || n > 61 {
			t.Errorf("the client looked %d times in a minute", n)
		}
	})
}

func TestFallbackEndsWhenTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.out(down)
		c := newClient(t, e)
		m := c.Mutex("x", failOpen)
		mustRelease(t, mustLock(t, m.Lock, context.Background()))
		time.Sleep(time.Hour)
		e.out(nil)
		time.Sleep(1100 * time.Millisecond)
		l := mustLock(t, m.Lock, context.Background())
		wantFallback(t, l, holdfast.FailClosed)
		mustRelease(t, l)
		looks := e.looks()
		time.Sleep(time.Hour)
		if e.looks() != looks {
			t.Error("it goes on looking at a store that answers")
		}
		// The next silence is noticed anew.
		e.out(down)
		took := timed(func() { wantFallback(t, mustLock(t, m.Lock, context.Background()), holdfast.FailOpen) })
		if took < holdfast.FallbackTimeout {
			t.Errorf("it fell back after %v", took)
		}
	})
}

// Another call that gets an answer shows that the store is not dead as a whole.
func TestFallbackOfOneNodeIsNotThatOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.failAcquires("dead", down)
		c := newClient(t, e)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 5 {
				took := timed(func() {
					wantFallback(t, mustLock(t, c.Mutex("dead", failOpen).Lock, context.Background()), holdfast.FailOpen)
				})
				if took < holdfast.FallbackTimeout {
					t.Errorf("it fell back after %v", took)
				}
			}
		}()
		for range 60 {
			time.Sleep(77 * time.Millisecond)
			l := mustLock(t, c.Mutex("alive", failOpen).Lock, context.Background())
			wantFallback(t, l, holdfast.FailClosed)
			mustRelease(t, l)
		}
		<-done
	})
}

// A renewal that is answered between two short failures shows that they are not one silence.
func TestFailuresBeforeAndAfterARenewalAreNotOneSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		m := c.Mutex("x", failOpen)
		mustLock(t, c.Mutex("held", holdfast.WithTTL(3*time.Second)).Lock, context.Background()) // renewed each second
		e.All(down)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		mustNotLock(t, m.Lock, ctx, holdfast.ErrUnavailable)
		e.All(nil)
		time.Sleep(8 * time.Second)
		e.All(down)
		time.AfterFunc(50*time.Millisecond, func() { e.All(nil) })
		wantFallback(t, mustLock(t, m.Lock, context.Background()), holdfast.FailClosed)
	})
}

// A caller with a fallback does not wait behind one that waits for the store without a
// limit.
func TestFallbackIsNotHeldUpByFailClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.out(hang)
		c := newClient(t, e)
		ctx, cancel := context.WithCancel(context.Background())
		first := lockSoon(ctx, c.Mutex("x").Lock)
		synctest.Wait()
		took := timed(func() {
			wantFallback(t, mustLock(t, c.Mutex("x", failOpen).Lock, context.Background()), holdfast.FailOpen)
		})
		if took > holdfast.FallbackTimeout+200*time.Millisecond {
			t.Errorf("it fell back after %v", took)
		}
		cancel()
		wantErr(t, (<-first).err, context.Canceled)
	})
}

// A resource that is held never makes a lock fall back, nor does a slow network
// or a refusal.
func TestBusyDoesNotFallBack(t *testing.T) {
	for _, p := range []holdfast.Fallback{holdfast.FailOpen, holdfast.LocalOnly} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFlaky()
				other := mustLock(t, newClient(t, e.Engine).Mutex("x").Lock, context.Background())
				m := newClient(t, e).Mutex("x", holdfast.WithFallback(p))
				e.Slow(90*time.Millisecond, 90*time.Millisecond)
				for _, wait := range []time.Duration{50 * time.Millisecond, 600 * time.Millisecond, 10*time.Second + 7*time.Millisecond, time.Minute} {
					ctx, cancel := context.WithTimeout(context.Background(), wait)
					mustNotLock(t, m.Lock, ctx, holdfast.ErrNotAcquired, context.DeadlineExceeded)
					cancel()
				}
				_, err := m.TryLock(context.Background())
				if _, ok := errors.AsType[*holdfast.HeldError](err); !ok {
					t.Errorf("TryLock: %v", err)
				}
				e.out(denied)
				mustNotLock(t, m.Lock, context.Background(), holdfast.ErrDenied)
				e.out(nil)
				mustRelease(t, other)
			})
		})
	}
}

func TestTryLockFallsBackSoonIfNothingIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		c := newClient(t, e)
		e.out(down)
		took := timed(func() {
			l := mustLock(t, c.Mutex("x", failOpen).TryLock, context.Background())
			wantFallback(t, l, holdfast.FailOpen)
		})
		if took > 300*time.Millisecond {
			t.Errorf("refused at once, but it took %v", took)
		}
		e.out(hang)
		took = timed(func() {
			l := mustLock(t, c.Mutex("y", failOpen).TryLock, context.Background())
			wantFallback(t, l, holdfast.FailOpen)
		})
		if took > holdfast.FallbackTimeout+200*time.Millisecond {
			t.Errorf("hung: it took %v", took)
		}
	})
}

// With little time left the fallback leaves half of it for the work.
func TestFallbackWithinADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.out(hang)
		c := newClient(t, e)
		ctx, cancel := context.WithTimeout(context.Background(), 800*time.Millisecond)
		defer cancel()
		took := timed(func() { wantFallback(t, mustLock(t, c.Mutex("x", failOpen).Lock, ctx), holdfast.FailOpen) })
		if took < 400*time.Millisecond || took > 600*time.Millisecond {
			t.Errorf("it fell back after %v of 800 ms", took)
		}
		short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		mustNotLock(t, c.Mutex("x", failOpen).Lock, short, holdfast.ErrNotAcquired, context.DeadlineExceeded)
	})
}

// A waiter in the queue falls back when the store goes away, and so do those
// behind it in this process.
func TestWaitersFallBack(t *testing.T) {
	for _, p := range []holdfast.Fallback{holdfast.FailOpen, holdfast.LocalOnly} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFlaky()
				other := mustLock(t, newClient(t, e.Engine).Mutex("x").Lock, context.Background())
				m := newClient(t, e).Mutex("x", holdfast.WithFallback(p))
				var waits []<-chan result
				for range 5 {
					waits = append(waits, lockSoon(context.Background(), m.Lock))
					synctest.Wait()
				}
				time.Sleep(10 * time.Second)
				start := time.Now()
				e.out(hang)
				for _, w := range waits {
					r := wantGrant(t, w)
					wantFallback(t, r.lease, p)
					if took := r.at.Sub(start); took > 3*time.Second {
						t.Errorf("it fell back after %v", took)
					}
					mustRelease(t, r.lease)
				}
				e.out(nil)
				mustRelease(t, other)
				time.Sleep(holdfast.DefaultTTL)
				wantEmpty(t, e, "x")
			})
		})
	}
}

// A lease that the store granted is lost as usual if the store becomes unavailable.
func TestFallbackDoesNotSaveALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		m := newClient(t, e).Mutex("x", failOpen, holdfast.WithTTL(2*time.Second))
		l := mustLock(t, m.Lock, context.Background())
		e.out(down)
		<-l.Done()
		wantLost(t, l.Err(), holdfast.LostUnreachable)
		wantFallback(t, mustLock(t, m.Lock, context.Background()), holdfast.FailOpen)
	})
}

func TestFallbackReentry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.out(down)
		c := newClient(t, e)
		outer := mustLock(t, c.Mutex("x", localOnly).Lock, context.Background())
		mustNotLock(t, c.Mutex("x", localOnly).Lock, outer.Context(), holdfast.ErrDeadlock)
		again := c.Mutex("x", localOnly, holdfast.WithReentrancy())
		inner := mustLock(t, again.Lock, outer.Context())
		wantFallback(t, inner, holdfast.LocalOnly)
		e.out(nil) // it is the caller's own also when the store is back
		time.Sleep(2 * time.Second)
		third := mustLock(t, again.Lock, inner.Context())
		wantFallback(t, third, holdfast.LocalOnly)
		mustRelease(t, outer)
		mustRelease(t, third)
		next := lockSoon(context.Background(), c.Mutex("x", localOnly).Lock)
		synctest.Wait()
		wantWaiting(t, next, "entered beside a re-entrant lease")
		mustRelease(t, inner)
		r := <-next
		wantFallback(t, r.lease, holdfast.FailClosed)
		mustRelease(t, r.lease)
	})
}

func TestFallbackWithoutRenewal(t *testing.T) {
	for _, p := range []holdfast.Fallback{holdfast.FailOpen, holdfast.LocalOnly} {
		synctest.Test(t, func(t *testing.T) {
			e := newFlaky()
			e.out(down)
			m := newClient(t, e).Mutex("x", holdfast.WithFallback(p), holdfast.WithTTL(time.Minute), holdfast.WithoutRenewal())
			l := mustLock(t, m.Lock, context.Background())
			start := time.Now()
			<-l.Context().Done()
			if took := time.Since(start); took != time.Minute || !l.Deadline().Equal(start.Add(time.Minute)) {
				t.Errorf("it ended after %v, deadline %v", took, l.Deadline())
			}
			wantLost(t, l.Err(), holdfast.LostExpired)
			mustRelease(t, mustLock(t, m.Lock, context.Background()))
		})
	}
}

func TestCloseEndsFallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.out(hang)
		c := newClient(t, e)
		open := mustLock(t, c.Mutex("x", failOpen).Lock, context.Background())
		local := mustLock(t, c.Mutex("y", localOnly).Lock, context.Background())
		wait := lockSoon(context.Background(), c.Mutex("y", localOnly).Lock)
		silent := lockSoon(context.Background(), c.Mutex("z").Lock)
		synctest.Wait()
		_ = c.Close() // what FailClosed requested cannot be cleaned up
		wantErr(t, (<-wait).err, holdfast.ErrClosed)
		wantErr(t, (<-silent).err, holdfast.ErrClosed)
		for _, l := range []*holdfast.Lease{open, local} {
			wantErr(t, l.Err(), holdfast.ErrReleased)
			wantErr(t, l.Release(context.Background()), holdfast.ErrNotHeld)
		}
		mustNotLock(t, c.Mutex("x", failOpen).Lock, context.Background(), holdfast.ErrClosed)
	})
}

func TestFallbackOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		c := newClient(t, e)
		mustNotLock(t, c.Mutex("x", holdfast.WithFallback(3)).Lock, context.Background(), holdfast.ErrInvalid)
		_, err := c.Election("x", failOpen).Campaign(context.Background(), "me")
		wantErr(t, err, holdfast.ErrInvalid)
		e.out(down)
		l := mustLock(t, c.Mutex("x", failOpen).Lock, context.Background())
		_, err = l.Detach(context.Background())
		wantErr(t, err, errors.ErrUnsupported)
		wantErr(t, l.Demote(context.Background()), holdfast.ErrNotHeld)
		if l.Err() != nil {
			t.Errorf("it is gone: %v", l.Err())
		}
	})
}

func TestMultiFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.out(hang)
		c := newClient(t, e)
		names := []string{"b", "a", "c"}
		var l *holdfast.Lease
		if took := timed(func() { l = mustLock(t, c.Multi(names, localOnly).Lock, context.Background()) }); took > 1200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		wantFallback(t, l, holdfast.LocalOnly)
		if len(l.Tokens()) != 3 || l.Token() != 0 {
			t.Errorf("tokens %v", l.Tokens())
		}
		mustNotLock(t, c.Mutex("c", localOnly).TryLock, context.Background(), holdfast.ErrNotAcquired)
		mustNotLock(t, c.Mutex("c", localOnly).TryLock, l.Context(), holdfast.ErrDeadlock)
		next := lockSoon(context.Background(), c.Multi([]string{"c", "d"}, localOnly).Lock)
		time.Sleep(time.Hour)
		mustRelease(t, l)
		r := <-next
		wantFallback(t, r.lease, holdfast.LocalOnly)
		mustRelease(t, r.lease)
	})
}

// A caller that takes over the local turn while the store does not respond has the whole
// FallbackTimeout, however little time the caller before it had.
func TestFallbackTimeoutIsPerCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x", holdfast.WithFallback(holdfast.FailOpen))
		e.All(down)
		short, cancel := context.WithTimeout(context.Background(), 600*time.Millisecond)
		defer cancel()
		first := lockSoon(short, m.Lock)
		synctest.Wait()
		start := time.Now()
		second := lockSoon(context.Background(), m.Lock)
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		cancel()
		<-first
		r := wantGrant(t, second)
		if took := r.at.Sub(start); took < holdfast.FallbackTimeout {
			t.Errorf("it fell back after %v", took)
		}
		_ = r.lease.Release(context.Background())
	})
}

// causes is a hook that notes the first error of a wait that ends without a grant.
type causes struct{ first chan error }

func (h causes) Withdraw(_ context.Context, e holdfast.WithdrawEvent) {
	select {
	case h.first <- e.Err:
	default:
	}
}

// A ctx may have the error of a wait that fell back as its cause. Waits that it ends have not fallen back, and take no
// hold on the local lock.
func TestACauseThatFellBackTakesNoLocalHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, h := newFaulty(), causes{make(chan error, 1)}
		c, other := newClient(t, e, holdfast.WithHooks(h)), newClient(t, e.Engine)
		held := mustLock(t, other.Mutex("z").Lock, context.Background())
		fell := lockSoon(context.Background(), c.Mutex("z", localOnly).Lock)
		synctest.Wait() // it waits in the store
		e.All(down)
		mustRelease(t, wantGrant(t, fell).lease)
		mustRelease(t, held)
		e.All(nil)
		time.Sleep(5 * time.Second) // the client has seen that the store is back

		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		names := []string{"x", "y"}
		var others []*holdfast.Lease
		var waits []<-chan result
		for _, name := range names {
			others = append(others, mustLock(t, other.Mutex(name).Lock, context.Background()))
			waits = append(waits, lockSoon(ctx, c.Mutex(name, localOnly).Lock))
		}
		synctest.Wait()
		e.Set(func() { // the withdrawals take a while, so both are under way at a time
			e.OnRelease = func(ctx context.Context, r engine.Release) error {
				time.Sleep(50 * time.Millisecond)
				return e.Engine.Release(ctx, r)
			}
		})
		cancel(<-h.first)
		for i, w := range waits {
			wantErr(t, (<-w).err, holdfast.ErrNotAcquired)
			mustRelease(t, others[i])
		}
		for _, name := range names {
			soon, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			mustRelease(t, mustLock(t, c.Mutex(name, localOnly).Lock, soon))
		}
	})
}

// A request that gets no answer shows nothing about the store if another call had one meanwhile.
func TestFallbackOfOneNodeThatHangsIsNotThatOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.Set(func() {
			e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				if r.Resource.Name == "dead" {
					return engine.Answer{}, hang(ctx)
				}
				return e.Engine.Acquire(ctx, r)
			}
		})
		c := newClient(t, e)
		dead := lockSoon(context.Background(), c.Mutex("dead", failOpen).Lock)
		time.Sleep(holdfast.FallbackTimeout - time.Millisecond)
		mustRelease(t, mustLock(t, c.Mutex("alive", failOpen).Lock, context.Background()))
		wantFallback(t, wantGrant(t, dead).lease, holdfast.FailOpen)
		wantFallback(t, mustLock(t, c.Mutex("alive", failOpen).Lock, context.Background()), holdfast.FailClosed)
	})
}
