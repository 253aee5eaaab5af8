package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// The tokens that a lone caller has reserved are not reserved again by each yield.
func TestLingerKeepsTokensBehindTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.Slow(500*time.Microsecond, 500*time.Microsecond) // 1 ms a trip
		m := newClient(t, e).Mutex("a", holdfast.WithLinger(lingerMax))
		first := pair(t, m)
		start := time.Now()
		for range 100_000 {
			pair(t, m)
		}
		ahead := func(token uint64) time.Duration {
			return time.Duration(token-first)*time.Microsecond - time.Since(start)
		}
		// Two local callers with turns of 2 ms yield to each other.
		end := time.Now().Add(2 * time.Second)
		done := make(chan struct{})
		for range 2 {
			go func() {
				for time.Now().Before(end) {
					l, err := m.Lock(context.Background())
					if err != nil {
						t.Error(err)
						break
					}
					time.Sleep(2 * time.Millisecond)
					mustRelease(t, l)
				}
				done <- struct{}{}
			}()
		}
		<-done
		<-done
		other := mustLock(t, newClient(t, e).Mutex("a").Lock, t.Context())
		if a := ahead(other.Token()); a > 100*time.Millisecond {
			t.Errorf("the token of another client is %v ahead of the clock", a)
		}
		mustRelease(t, other)
		time.Sleep(31 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		before := time.Now()
		l, err := m.Lock(ctx)
		if d := time.Since(before); d > 60*time.Millisecond {
			t.Errorf("Lock of a free resource, with a ctx of 50 ms, took %v (err %v)", d, err)
		}
		if err == nil {
			if a := ahead(l.Token()); a > time.Second {
				t.Errorf("token is %v ahead of the clock", a)
			}
			mustRelease(t, l)
		}
	})
}

func TestYieldWithoutASubscriptionIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.Set(func() { e.OnListen = func(context.Context) error { return engine.ErrUnavailable } })
		c := newClient(t, e)
		own := c.Mutex("stock:42", holdfast.WithLinger(lingerMax))
		l := mustLock(t, own.Lock, t.Context())
		next := lockSoon(t.Context(), own.Lock)
		time.Sleep(20 * time.Millisecond) // the slice is over
		mustRelease(t, l)                 // yields
		mustRelease(t, wantGrant(t, next).lease)
		if s := c.Stats(); s.Lingering != 0 {
			t.Errorf("a grant is kept, subscription %v", s.Subscription)
		}
		start := time.Now()
		l = mustLock(t, newClient(t, e).Mutex("stock:42").Lock, t.Context())
		if d := time.Since(start); d > 10*time.Millisecond {
			t.Errorf("another process got it after %v", d)
		}
		mustRelease(t, l)
	})
}

// failRenewals makes all renewals fail.
func failRenewals(e *faulty) {
	e.Set(func() {
		e.OnRenew = func(_ context.Context, b []engine.Renewal) []error {
			errs := make([]error, len(b))
			for i := range errs {
				errs[i] = engine.ErrUnavailable
			}
			return errs
		}
	})
}

type panicJeopardy struct{ on atomic.Bool }

func (p *panicJeopardy) JeopardyEnd(holdfast.JeopardyEndEvent) {
	if p.on.Swap(false) {
		panic("hook")
	}
}

// The renewals of a lease fail while it is used again and again, and the hook panics when it ends. The turn of
// the process is not lost.
func TestHookPanicsWhenALingeringLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, p := newFaulty(), &panicJeopardy{}
		p.on.Store(true)
		m := newClient(t, e, holdfast.WithHooks(p)).Mutex("a", holdfast.WithTTL(300*time.Millisecond), holdfast.WithLinger(100*time.Millisecond))
		l := mustLock(t, m.Lock, t.Context())
		time.Sleep(90 * time.Millisecond)
		failRenewals(e)
		time.Sleep(20 * time.Millisecond)
		func() {
			defer func() { _ = recover() }()
			_ = l.Release(t.Context())
			if l, err := m.Lock(t.Context()); err == nil {
				_ = l.Release(t.Context())
			}
		}()
		time.Sleep(time.Second)
		e.Set(func() { e.OnRenew = nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		mustRelease(t, mustLock(t, m.Lock, ctx))
	})
}

func TestJeopardyEndsLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		m := c.Mutex("a", holdfast.WithTTL(3*time.Second), holdfast.WithLinger(time.Second))
		l := mustLock(t, m.Lock, t.Context())
		time.Sleep(900 * time.Millisecond)
		mustRelease(t, l)
		failRenewals(e)
		time.Sleep(300 * time.Millisecond) // the renewal at 1 s has failed
		if s := c.Stats(); s.Lingering != 0 {
			t.Error("it is kept although a renewal failed")
		}
	})
}

// Also if ctx ends while it waits for the lease.
func TestTryLockOfARecalledLeaseNamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, own, other, _ := lingering(t)
		l := mustLock(t, own.Lock, t.Context())
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		ended, end := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, end)
		for _, ctx := range []context.Context{short, ended} {
			_, err := other.TryLock(ctx)
			if _, ok := errors.AsType[*holdfast.HeldError](err); !ok {
				t.Errorf("TryLock of a lease in use: %v", err)
			}
		}
		mustRelease(t, l)
	})
}

// Close while the timers of many grants fire: each of them is released.
func TestCloseWhileLingersEnd(t *testing.T) {
	const names = 300
	for i := range 30 {
		e := memory.New()
		c := newClient(t, e)
		for k := range names {
			l := mustLock(t, c.Mutex(fmt.Sprint("n", k), holdfast.WithLinger(20*time.Millisecond)).Lock, t.Context())
			mustRelease(t, l)
		}
		<-time.After(15*time.Millisecond + time.Duration(i)*200*time.Microsecond)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for k := range names {
			wantEmpty(t, e, fmt.Sprint("n", k))
		}
	}
}
