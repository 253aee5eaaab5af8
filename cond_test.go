package holdfast_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// condName is the resource of the condition that the tests wait for.
const condName = "x#cond:ready"

// waitSoon takes the mutex and waits for the condition in the background. It
// returns when the wait has begun.
func waitSoon(t testing.TB, ctx context.Context, c *holdfast.Client, opts ...holdfast.LockOption) <-chan result {
	t.Helper()
	m := c.Mutex("x", opts...)
	l := mustLock(t, m.Lock, context.Background())
	got := make(chan result, 1)
	go func() {
		next, err := m.Cond("ready").Wait(ctx, l)
		got <- result{next, err, time.Now()}
	}()
	synctest.Wait()
	return got
}

// awake returns the waits that have ended without an error, and releases their leases.
func awake(t testing.TB, waits []<-chan result) []int {
	t.Helper()
	var woken []int
	for again := true; again; {
		synctest.Wait()
		again = false
		for i, w := range waits {
			select {
			case r := <-w:
				if r.err != nil {
					t.Errorf("waiter %d: %v", i, r.err)
					continue
				}
				mustRelease(t, r.lease)
				woken = append(woken, i)
				again = true // another one may have got the mutex now
			default:
			}
		}
	}
	slices.Sort(woken)
	return woken
}

func TestCondSignalWakesOneInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		a, b := newClient(t, e), newClient(t, e)
		cond := b.Mutex("x").Cond("ready")
		if err := cond.Signal(t.Context()); err != nil { // nobody waits: it is not remembered
			t.Fatal(err)
		}
		var waits []<-chan result
		for i := range 5 {
			waits = append(waits, waitSoon(t, context.Background(), []*holdfast.Client{a, b}[i%2]))
			time.Sleep(700 * time.Millisecond)
		}
		if got := awake(t, waits); got != nil {
			t.Fatalf("awake without a signal: %v", got)
		}
		for i := range 5 {
			start := time.Now()
			if err := cond.Signal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := awake(t, waits); !slices.Equal(got, []int{i}) || time.Since(start) > 0 {
				t.Errorf("signal %d woke %v, after %v", i, got, time.Since(start))
			}
		}
		wantEmpty(t, e.Engine, condName)
		wantEmpty(t, e.Engine, "x")
	})
}

func TestCondBroadcastWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		a, b := newClient(t, e), newClient(t, e)
		var waits []<-chan result
		for range 4 {
			waits = append(waits, waitSoon(t, context.Background(), a), waitSoon(t, context.Background(), b))
		}
		if err := a.Mutex("x").Cond("ready").Broadcast(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := awake(t, waits); len(got) != 8 {
			t.Errorf("woke %v", got)
		}
		late := waitSoon(t, context.Background(), a)
		if got := awake(t, []<-chan result{late}); got != nil {
			t.Error("a broadcast is remembered")
		}
	})
}

// The lease that Wait returns is a new one, taken in turn; while the caller
// waits, others have the mutex.
func TestCondWaitReleasesTheMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New())
		m := c.Mutex("x", holdfast.WithReason("for soup"))
		old := mustLock(t, m.Lock, context.Background())
		got := make(chan result, 1)
		go func() {
			l, err := m.Cond("ready").Wait(context.Background(), old)
			got <- result{l, err, time.Now()}
		}()
		synctest.Wait()
		wantErr(t, old.Err(), holdfast.ErrReleased)
		other := mustLock(t, m.Lock, context.Background())
		s, err := c.Snapshot(t.Context(), condName)
		if err != nil || s.Kind != "cond" || len(s.Holders) != 1 || s.Holders[0].Reason != "for soup" {
			t.Errorf("operators see %+v, %v", s, err)
		}
		if err := m.Cond("ready").Signal(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		select {
		case r := <-got:
			t.Fatalf("returned while another holds the mutex: %+v", r)
		default:
		}
		mustRelease(t, other)
		r := <-got
		if r.err != nil || r.lease.Token() <= other.Token() || r.lease.Err() != nil {
			t.Fatalf("got %+v after token %d", r, other.Token())
		}
		mustRelease(t, r.lease)
	})
}

// The next holder of the mutex finds the caller waiting, even if the store is slow.
func TestCondWaitsBeforeTheMutexIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, other := newFaulty(), newFaulty()
		other.Engine = e.Engine
		c, next := newClient(t, e), newClient(t, other)
		m := c.Mutex("x")
		l := mustLock(t, m.Lock, context.Background())
		e.Slow(300*time.Millisecond, 0)
		signalled := make(chan error, 1)
		go func() {
			l := mustLock(t, next.Mutex("x").Lock, context.Background())
			err := next.Mutex("x").Cond("ready").Signal(context.Background())
			mustRelease(t, l)
			signalled <- err
		}()
		start := time.Now()
		l, err := m.Cond("ready").Wait(context.Background(), l)
		if err != nil || time.Since(start) > 3*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		if err := <-signalled; err != nil {
			t.Error(err)
		}
		mustRelease(t, l)
	})
}

// A signal that comes right behind the release is not missed, and what wakes a
// waiter may be lost: it costs a renewal, which comes every second.
func TestCondLostWakeups(t *testing.T) {
	for name, spoil := range map[string]func(e *faulty){
		"none":             func(*faulty) {},
		"wake-ups dropped": func(e *faulty) { e.OnWake = func(engine.Wakeup) bool { return false } },
		"listen fails":     func(e *faulty) { e.OnListen = down },
		"listen hangs":     func(e *faulty) { e.OnListen = hang },
		"listen refused":   func(e *faulty) { e.OnListen = denied },
		"listen is slow": func(e *faulty) {
			e.OnListen = func(context.Context) error { <-time.After(300 * time.Millisecond); return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []time.Duration{0, 10 * time.Millisecond, 400 * time.Millisecond, 10500 * time.Millisecond} {
				synctest.Test(t, func(t *testing.T) {
					e := newFaulty()
					spoil(e)
					wait := waitSoon(t, context.Background(), newClient(t, e))
					other := newFaulty()
					other.Engine = e.Engine
					time.Sleep(after)
					if err := newClient(t, other).Mutex("x").Cond("ready").Signal(t.Context()); err != nil {
						t.Fatal(err)
					}
					start, most := time.Now(), 1100*time.Millisecond
					if name == "none" || name == "listen is slow" { // it looks again when it listens
						most = 300 * time.Millisecond
					}
					r := <-wait
					if r.err != nil || r.at.Sub(start) > most {
						t.Fatalf("signal after %v: woken after %v, %v", after, r.at.Sub(start), r.err)
					}
					mustRelease(t, r.lease)
				})
			}
		})
	}
}

// A wait that ends without the mutex leaves nothing behind, and a signal that had
// come for it goes to the next.
func TestCondCancelled(t *testing.T) {
	cause := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		ctx, cancel := context.WithCancelCause(context.Background())
		first, second := waitSoon(t, ctx, c), waitSoon(t, context.Background(), c)
		cancel(cause)
		r := <-first
		wantErr(t, r.err, holdfast.ErrNotAcquired, cause)
		if r.lease != nil || len(look(t, e.Engine, condName).Holders) != 1 {
			t.Error("something is left of the wait")
		}
		_ = c.Mutex("x").Cond("ready").Signal(t.Context())
		mustRelease(t, (<-second).lease)
	})
	for name, lose := range map[string]bool{"by a wake-up": false, "without a wake-up": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c := newClient(t, e)
				ctx, cancel := context.WithCancelCause(context.Background())
				first, second := waitSoon(t, ctx, c), waitSoon(t, context.Background(), c)
				busy := mustLock(t, c.Mutex("x").Lock, context.Background())
				e.Set(func() { e.OnWake = func(engine.Wakeup) bool { return !lose } })
				_ = c.Mutex("x").Cond("ready").Signal(t.Context())
				synctest.Wait()
				cancel(cause)
				wantErr(t, (<-first).err, holdfast.ErrNotAcquired, cause)
				mustRelease(t, busy)
				start := time.Now()
				r := <-second
				if r.err != nil || r.at.Sub(start) > 1100*time.Millisecond {
					t.Fatalf("the next was woken after %v: %v", r.at.Sub(start), r.err)
				}
				mustRelease(t, r.lease)
				wantEmpty(t, e.Engine, condName)
			})
		})
	}
}

// Whatever ends a wait but a signal is a reason to look again, not to hang.
func TestCondReturnsWithoutSignal(t *testing.T) {
	for name, tc := range map[string]struct {
		do    func(e *faulty)
		least time.Duration
		most  time.Duration
	}{
		"patience is over": {func(*faulty) {}, holdfast.CondTimeout, holdfast.CondTimeout},
		"the store loses its data": {func(e *faulty) {
			e.OnRenew = func(_ context.Context, b []engine.Renewal) []error {
				return slices.Repeat([]error{&engine.NotHeldError{Cause: engine.CauseDeleted}}, len(b))
			}
		}, 0, time.Second},
		"the store is away": {func(e *faulty) {
			e.OnRenew = func(ctx context.Context, b []engine.Renewal) []error {
				return slices.Repeat([]error{down(ctx)}, len(b))
			}
		}, 0, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				wait := waitSoon(t, context.Background(), newClient(t, e))
				start := time.Now()
				e.Set(func() { tc.do(e) })
				r := <-wait
				if took := r.at.Sub(start); r.err != nil || took < tc.least || took > tc.most {
					t.Fatalf("after %v: %v", took, r.err)
				}
				e.Set(func() { e.OnRenew = nil })
				mustRelease(t, r.lease)
				synctest.Wait()
				wantEmpty(t, e.Engine, condName)
			})
		})
	}
}

// A waiter whose process died takes a signal with it only until it is late with
// its renewal.
func TestCondDeadWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		dying := newFaulty()
		dying.Engine = store
		c := newClient(t, store)
		dead := waitSoon(t, context.Background(), newClient(t, dying))
		wait := waitSoon(t, context.Background(), c)
		time.Sleep(500 * time.Millisecond)
		dying.All(down)
		dying.Set(func() { dying.OnWake = func(engine.Wakeup) bool { return false } })
		time.Sleep(2 * time.Second)
		if err := c.Mutex("x").Cond("ready").Signal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := awake(t, []<-chan result{wait}); got == nil {
			t.Error("the signal is gone with the dead")
		}
		dying.All(nil)
		mustRelease(t, (<-dead).lease)
	})
}

func TestCondClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, other := newClient(t, e), newClient(t, e)
		wait := waitSoon(t, context.Background(), c)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, (<-wait).err, holdfast.ErrClosed)
		wantEmpty(t, e.Engine, condName)
		wantEmpty(t, e.Engine, "x")
		wantErr(t, c.Mutex("x").Cond("ready").Signal(t.Context()), holdfast.ErrClosed)
		l := mustLock(t, other.Mutex("x").Lock, context.Background())
		_, err := c.Mutex("x").Cond("ready").Wait(t.Context(), l)
		wantErr(t, err, holdfast.ErrMismatch)
		mustRelease(t, l)
	})
}

// A waiter that Close ends after its signal hands that on, also if the store does not answer at first.
func TestCloseSignalsTheNextWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		flaky := &failingPeeks{Engine: e}
		c, other := newClient(t, flaky), newClient(t, e)
		first, second := waitSoon(t, t.Context(), c), waitSoon(t, t.Context(), other)
		busy := mustLock(t, other.Mutex("x").Lock, t.Context())
		must(t, other.Mutex("x").Cond("ready").Signal(t.Context()))
		synctest.Wait()
		flaky.left.Store(2)
		must(t, c.Close())
		wantErr(t, (<-first).err, holdfast.ErrClosed)
		mustRelease(t, busy)
		start := time.Now()
		r := <-second
		if r.err != nil || r.at.Sub(start) > 1100*time.Millisecond {
			t.Fatalf("the next was woken after %v: %v", r.at.Sub(start), r.err)
		}
		if left := flaky.left.Load(); left > 0 {
			t.Errorf("%d more reads were to fail", left)
		}
		mustRelease(t, r.lease)
		wantEmpty(t, e, condName)
	})
}

// A waiter whose signal has not arrived when Close ends it has lost no lease, and hands the signal on.
func TestCloseOfASignalledWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, other := newClient(t, e), newClient(t, e.Engine)
		first, second := waitSoon(t, t.Context(), c), waitSoon(t, t.Context(), other)
		e.Set(func() { e.OnWake = func(engine.Wakeup) bool { return false } })
		must(t, other.Mutex("x").Cond("ready").Signal(t.Context()))
		must(t, c.Close())
		wantErr(t, (<-first).err, holdfast.ErrClosed)
		r := <-second
		must(t, r.err)
		mustRelease(t, r.lease)
	})
}

// failingPeeks is a store of which so many reads fail.
type failingPeeks struct {
	*memory.Engine
	left atomic.Int32
}

func (s *failingPeeks) Peek(ctx context.Context, r engine.Resource) (engine.Brief, error) {
	if s.left.Add(-1) >= 0 {
		return engine.Brief{}, down(ctx)
	}
	return s.Engine.Peek(ctx, r)
}

// Close ends a Broadcast to many, also if its ctx never ends.
func TestBroadcastEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c, other := newClient(t, slowBreaks{e}), newClient(t, e)
		var waits []<-chan result
		for range 3 {
			waits = append(waits, waitSoon(t, context.Background(), other))
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Mutex("x").Cond("ready").Broadcast(context.Background()) }()
		time.Sleep(time.Second / 2)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, <-ended, holdfast.ErrClosed)
		if got := awake(t, waits); len(got) != 1 {
			t.Errorf("woke %v; want the one whose signal was under way", got)
		}
	})
}

// slowBreaks is a store whose Break takes a second.
type slowBreaks struct{ *memory.Engine }

func (s slowBreaks) Break(ctx context.Context, r engine.Resource, b engine.Break) error {
	<-time.After(time.Second)
	return s.Engine.Break(ctx, r, b)
}

// Mistakes of the caller return an error at once and leave the lease unchanged.
func TestCondMistakes(t *testing.T) {
	c := newClient(t, memory.New())
	ctx := context.Background()
	m := c.Mutex("x", holdfast.WithReentrancy())
	l := mustLock(t, m.Lock, ctx)
	wait := func(l *holdfast.Lease, targets ...error) {
		t.Helper()
		next, err := m.Cond("ready").Wait(ctx, l)
		wantErr(t, err, targets...)
		if next != nil {
			t.Error("a lease and an error")
		}
	}
	wait(nil, holdfast.ErrNotHeld)
	other := mustLock(t, c.Mutex("y").Lock, ctx)
	wait(other, holdfast.ErrMismatch)
	mustRelease(t, other)
	wait(other, holdfast.ErrMismatch)
	_, err := m.Cond("ready").Wait(l.Context(), l)
	wantErr(t, err, holdfast.ErrInvalid)
	again := mustLock(t, m.Lock, l.Context())
	wait(again, holdfast.ErrDeadlock)
	mustRelease(t, again)
	wait(again, holdfast.ErrNotHeld, holdfast.ErrReleased)
	foreign := mustLock(t, c.Mutex(condName).Lock, ctx)
	wait(l, holdfast.ErrMismatch)
	wantErr(t, m.Cond("ready").Signal(ctx), holdfast.ErrMismatch)
	mustRelease(t, foreign)
	if l.Err() != nil {
		t.Error(l.Err())
	}
	mustRelease(t, l)
	multi := mustLock(t, c.Multi([]string{"x", "y"}).Lock, ctx)
	wait(multi, holdfast.ErrMismatch)
	mustRelease(t, multi)
	for _, name := range []string{"", "a#cond:b", strings.Repeat("n", holdfast.MaxNameLen-6), "\xff"} {
		wantErr(t, m.Cond(name).Signal(ctx), holdfast.ErrInvalid)
		_, err := m.Cond(name).Wait(ctx, l)
		wantErr(t, err, holdfast.ErrInvalid)
	}
	wantErr(t, c.Mutex("").Cond("a").Broadcast(ctx), holdfast.ErrInvalid)
	if err := m.Cond(strings.Repeat("n", holdfast.MaxNameLen-7)).Signal(ctx); err != nil {
		t.Error(err)
	}
}

// Every error that is no mistake ends the lease: its holder has lost sight of it.
func TestCondErrorsEndTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		m := c.Mutex("x")
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		l := mustLock(t, m.Lock, context.Background())
		_, err := m.Cond("ready").Wait(ended, l)
		wantErr(t, err, holdfast.ErrNotAcquired, context.Canceled)
		wantErr(t, l.Err(), holdfast.ErrReleased)
		wantEmpty(t, e.Engine, "x")

		l = mustLock(t, m.Lock, context.Background())
		e.All(down) // it cannot wait, and loses the lease meanwhile
		_, err = m.Cond("ready").Wait(context.Background(), l)
		wantErr(t, err, holdfast.ErrLost)
		e.All(nil)

		l = mustLock(t, m.Lock, context.Background())
		e.Set(func() {
			e.OnRelease = func(context.Context, engine.Release) error {
				e.Set(func() { e.OnRelease = nil })
				return &engine.NotHeldError{Cause: engine.CauseTaken}
			}
		})
		_, err = m.Cond("ready").Wait(context.Background(), l)
		wantLost(t, err, holdfast.LostTaken)
		synctest.Wait()
		wantEmpty(t, e.Engine, condName)
	})
}

func TestCondWithFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		m := c.Mutex("x", holdfast.WithFallback(holdfast.FailOpen))
		e.All(down)
		l := mustLock(t, m.Lock, context.Background())
		_, err := m.Cond("ready").Wait(context.Background(), l)
		wantErr(t, err, holdfast.ErrUnavailable)
		wantErr(t, l.Err(), holdfast.ErrReleased)
	})
}

// A signal is not a loss: nothing is logged, and no hook is called.
func TestCondSignalIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := newClient(t, memory.New(), holdfast.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			holdfast.WithHooks(lostHook(func(err *holdfast.LostError) { t.Error(err) })))
		wait := waitSoon(t, context.Background(), c)
		time.Sleep(1500 * time.Millisecond)
		if err := c.Mutex("x").Cond("ready").Signal(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, (<-wait).lease)
		if log.Len() > 0 {
			t.Error(log.String())
		}
	})
}

type lostHook func(*holdfast.LostError)

func (f lostHook) Lost(e *holdfast.LostError) { f(e) }
