package holdfast_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

type ctxKey struct{}

func TestLeaseContextIsOfTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("request over")
		parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), ctxKey{}, "v"))
		defer cancel(nil)
		l := mustLock(t, newClient(t, memory.New()).Mutex("x").Lock, parent)
		ctx := l.Context()
		if ctx != l.Context() || ctx.Value(ctxKey{}) != "v" || ctx.Err() != nil {
			t.Errorf("context: value %v, err %v", ctx.Value(ctxKey{}), ctx.Err())
		}
		child, end := context.WithTimeout(ctx, time.Hour)
		defer end()
		cancel(reason)
		<-child.Done()
		if context.Cause(ctx) != reason || context.Cause(child) != reason {
			t.Errorf("causes %v, %v", context.Cause(ctx), context.Cause(child))
		}
		if l.Err() != nil {
			t.Errorf("the caller's ctx ended the lease: %v", l.Err())
		}
		mustRelease(t, l)
	})
}

// The lease's Context ends before the store can grant the resource again.
func TestContextIsCancelledBeforeTheReleaseIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		l := mustLock(t, newClient(t, e).Mutex("x").Lock, context.Background())
		ctx, done := l.Context(), l.Done()
		e.Set(func() {
			e.OnRelease = func(c context.Context, r engine.Release) error {
				select {
				case <-done:
				default:
					t.Error("Done is open when the release is sent")
				}
				if ctx.Err() == nil || !errors.Is(context.Cause(ctx), holdfast.ErrReleased) {
					t.Errorf("context when the release is sent: %v, cause %v", ctx.Err(), context.Cause(ctx))
				}
				return e.Engine.Release(c, r)
			}
		})
		mustRelease(t, l)
		if !errors.Is(l.Err(), holdfast.ErrReleased) {
			t.Errorf("Err: %v", l.Err())
		}
		late := l.Context()
		if !errors.Is(context.Cause(late), holdfast.ErrReleased) {
			t.Errorf("cause %v", context.Cause(late))
		}
	})
}

func TestContextAndDoneAfterTheEnd(t *testing.T) {
	l := mustLock(t, newClient(t, memory.New()).Mutex("x").Lock, context.Background())
	mustRelease(t, l)
	<-l.Done()
	<-l.Context().Done()
	if !errors.Is(context.Cause(l.Context()), holdfast.ErrReleased) {
		t.Errorf("cause %v", context.Cause(l.Context()))
	}
}

func TestReleaseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x")
		l := mustLock(t, m.Lock, context.Background())
		mustRelease(t, l)
		next := mustLock(t, m.Lock, context.Background())
		wantErr(t, l.Release(context.Background()), holdfast.ErrNotHeld, holdfast.ErrReleased)
		if next.Err() != nil || len(look(t, e, "x").Holders) != 1 {
			t.Error("the second release ended the next lease")
		}
		mustRelease(t, next)
		if n := e.Count("release"); n != 2 {
			t.Errorf("%d releases sent; want 2", n)
		}
	})
}

func TestReleaseAtOnceByMany(t *testing.T) {
	e := memory.New()
	m := newClient(t, e).Mutex("x")
	for range 200 {
		l := mustLock(t, m.Lock, context.Background())
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() { errs <- l.Release(context.Background()) }()
		}
		done := 0
		for range cap(errs) {
			if err := <-errs; err == nil {
				done++
			} else {
				wantErr(t, err, holdfast.ErrNotHeld, holdfast.ErrReleased)
			}
		}
		if done != 1 {
			t.Fatalf("%d of %d releases succeeded", done, cap(errs))
		}
	}
	wantEmpty(t, e, "x")
}

func TestReleaseWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x")
		ctx, cancel := context.WithCancel(context.WithValue(context.Background(), ctxKey{}, "trace"))
		l := mustLock(t, m.Lock, ctx)
		cancel()
		e.Set(func() {
			e.OnRelease = func(c context.Context, r engine.Release) error {
				if c.Value(ctxKey{}) != "trace" {
					t.Error("the values of ctx are gone")
				}
				return e.Engine.Release(c, r)
			}
		})
		if err := l.Release(ctx); err != nil {
			t.Error(err)
		}
		wantEmpty(t, e, "x")
	})
}

func TestReleaseOfAHungStoreIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x", holdfast.WithTTL(time.Minute))
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		short, end := context.WithTimeout(context.Background(), 3*time.Second)
		defer end()
		for name, c := range map[string]struct {
			ctx  context.Context
			most time.Duration
		}{"ended": {ended, time.Second}, "3 s": {short, 3 * time.Second}} {
			l := mustLock(t, m.Lock, context.Background())
			e.All(hang)
			start := time.Now()
			err := l.Release(c.ctx)
			wantErr(t, err, holdfast.ErrUnavailable)
			if took := time.Since(start); took > c.most+100*time.Millisecond {
				t.Errorf("%s: Release took %v", name, took)
			}
			e.All(nil)
			time.Sleep(3 * time.Second) // the release is retried in the background
			wantEmpty(t, e, "x")
		}
	})
}

func TestReleaseIsRetriedAfterALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		l := mustLock(t, newClient(t, e).Mutex("x").Lock, context.Background())
		first := true
		e.Set(func() {
			e.OnRelease = func(c context.Context, r engine.Release) error {
				err := e.Engine.Release(c, r)
				if first {
					first = false
					return down(c) // it was done, and the answer was lost
				}
				return err
			}
		})
		mustRelease(t, l)
	})
}

func TestReleaseOfALostLease(t *testing.T) {
	for name, c := range map[string]struct {
		cause engine.Cause
		want  holdfast.LostCause
	}{
		"expired": {engine.CauseExpired, holdfast.LostExpired}, "taken": {engine.CauseTaken, holdfast.LostTaken},
		"deleted": {engine.CauseDeleted, holdfast.LostDeleted}, "broken": {engine.CauseBroken, holdfast.LostBroken},
		"released": {engine.CauseReleased, holdfast.LostElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				m := newClient(t, e).Mutex("x", holdfast.WithTTL(time.Hour))
				l := mustLock(t, m.Lock, context.Background())
				e.Set(func() {
					e.OnRelease = func(context.Context, engine.Release) error { return &engine.NotHeldError{Cause: c.cause} }
				})
				wantLost(t, l.Release(context.Background()), c.want)

				e.Set(func() {
					e.OnRenew = func(_ context.Context, batch []engine.Renewal) []error {
						return slices.Repeat([]error{&engine.NotHeldError{Cause: c.cause}}, len(batch))
					}
				})
				other := mustLock(t, newClient(t, e).Mutex("y", holdfast.WithTTL(3*time.Second)).Lock, context.Background())
				<-other.Done() // at the first renewal
				wantLost(t, other.Err(), c.want)
				wantLost(t, other.Release(context.Background()), c.want)
				e.Set(func() { e.OnRelease = nil })
				wantEmpty(t, e, "nothing")
			})
		})
	}
}

func TestWithoutRenewalEndsAtItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		start := time.Now()
		l := mustLock(t, newClient(t, e).Mutex("x", holdfast.WithoutRenewal(), holdfast.WithTTL(10*time.Second)).Lock, context.Background())
		deadline := l.Deadline()
		<-l.Context().Done()
		if took := time.Since(start); took >= 10*time.Second || took < 9*time.Second || !time.Now().Equal(deadline) {
			t.Errorf("ended after %v; Deadline said %v", took, deadline.Sub(start))
		}
		wantLost(t, l.Err(), holdfast.LostExpired)
		if e.Count("renew") != 0 {
			t.Error("it was renewed")
		}
		time.Sleep(220 * time.Millisecond) // the margin
		synctest.Wait()
		wantEmpty(t, e, "x")
	})
}

func TestDeadlineMovesWithRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustLock(t, newClient(t, memory.New()).Mutex("x", holdfast.WithTTL(15*time.Second)).Lock, context.Background())
		first := l.Deadline()
		if left := time.Until(first); left != 15*time.Second-320*time.Millisecond {
			t.Errorf("trust window %v", left)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		if moved := l.Deadline().Sub(first); moved != 5*time.Second {
			t.Errorf("a renewal moved the deadline by %v", moved)
		}
		mustRelease(t, l)
	})
}

// A day of holding costs one renewal an interval.
func TestADayOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		l := mustLock(t, newClient(t, e).Mutex("x", holdfast.WithTTL(15*time.Second)).Lock, context.Background())
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		want := int(24 * time.Hour / (5 * time.Second))
		if n := e.Count("renew"); n < want-1 || n > want {
			t.Errorf("%d renewals in a day; want %d", n, want)
		}
		if n := e.Count("acquire") + e.Count("release") + e.Count("listen"); n != 2 {
			t.Errorf("%d other calls", n)
		}
		mustRelease(t, l)
	})
}

func TestNoGoroutinePerHeldLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New())
		before := runtime.NumGoroutine()
		for i := range 10_000 {
			mustLock(t, c.Mutex(strconv.Itoa(i)).Lock, context.Background())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		// Some may come from outside of this test: the runtime's own are counted.
		if grown := runtime.NumGoroutine() - before; grown > 5 {
			t.Errorf("%d goroutines for 10,000 leases", grown)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
