package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
)

// The bubble of a test must be empty at its end, so each of these also shows
// that Close leaves no goroutine.

func TestCloseReleasesAndEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c, other := newClient(t, e), newClient(t, e)
		var leases []*holdfast.Lease
		for i := range 100 {
			leases = append(leases, mustLock(t, c.Mutex(strconv.Itoa(i)).Lock, context.Background()))
		}
		foreign := mustLock(t, other.Mutex("x").Lock, context.Background())
		waits := []<-chan result{
			lockSoon(context.Background(), c.Mutex("x").Lock),
			lockSoon(context.Background(), c.Mutex("x").Lock),
			lockSoon(context.Background(), c.Mutex("0").Lock),
			lockSoon(context.Background(), c.Mutex("x", holdfast.WithoutTenure()).Lock),
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("Close took %v", took)
		}
		for _, w := range waits {
			wantErr(t, (<-w).err, holdfast.ErrClosed, holdfast.ErrNotAcquired)
		}
		for i, l := range leases {
			if !errors.Is(l.Err(), holdfast.ErrReleased) || l.Context().Err() == nil {
				t.Errorf("lease %d: %v", i, l.Err())
			}
			wantEmpty(t, e, strconv.Itoa(i))
		}
		wantErr(t, leases[0].Release(context.Background()), holdfast.ErrNotHeld)
		if n := len(look(t, e, "x").Waiters); n != 0 {
			t.Errorf("%d left in the queue", n)
		}
		if foreign.Err() != nil {
			t.Error("another client's lease ended")
		}
		mustRelease(t, foreign)
	})
}

func TestCallsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		l := mustLock(t, newClient(t, e).Mutex("y").Lock, context.Background())
		ticket, err := l.Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		m := c.Mutex("x")
		for range 3 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		before := e.Count("acquire")
		mustNotLock(t, m.Lock, context.Background(), holdfast.ErrClosed)
		mustNotLock(t, m.TryLock, context.Background(), holdfast.ErrClosed)
		wantErr(t, m.Do(context.Background(), func(context.Context) error { return nil }), holdfast.ErrClosed)
		_, err = c.Snapshot(context.Background(), "x")
		wantErr(t, err, holdfast.ErrClosed)
		wantErr(t, c.Break(context.Background(), "x", "id"), holdfast.ErrClosed)
		_, err = c.Adopt(context.Background(), ticket)
		wantErr(t, err, holdfast.ErrClosed)
		n := 0
		for _, err := range c.List(context.Background(), "*") {
			wantErr(t, err, holdfast.ErrClosed)
			n++
		}
		if n != 1 || e.Count("acquire") != before {
			t.Errorf("%d answers of List, %d requests", n, e.Count("acquire")-before)
		}
	})
}

func TestCloseByMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		mustLock(t, c.Mutex("x").Lock, context.Background())
		e.All(hang)
		start := time.Now()
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() { errs <- c.Close() }()
		}
		for range cap(errs) {
			wantErr(t, <-errs, holdfast.ErrUnavailable)
		}
		if took := time.Since(start); took < 5*time.Second {
			t.Errorf("a Close returned after %v, while another was at work", took)
		}
		e.All(nil)
	})
}

// If the store hangs, Close is bounded for any number of leases, and the leases end at
// once. A wait inside a call ends at once too, or with the call if its ctx never ends.
func TestCloseWithAHungStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, other := newClient(t, e), newClient(t, e)
		var leases []*holdfast.Lease
		for i := range 500 {
			leases = append(leases, mustLock(t, c.Mutex(strconv.Itoa(i), holdfast.WithTTL(time.Hour)).Lock, context.Background()))
		}
		foreign := mustLock(t, other.Mutex("x", holdfast.WithTTL(time.Hour)).Lock, context.Background())
		e.All(hang)
		cancelable, cancel := context.WithCancel(context.Background())
		defer cancel()
		waits := []<-chan result{
			lockSoon(context.Background(), c.Mutex("x").Lock),
			lockSoon(context.Background(), c.Mutex("x").Lock),
			lockSoon(cancelable, c.Mutex("y").Lock),
			lockSoon(context.Background(), c.Mutex("y", holdfast.WithoutTenure()).Lock),
		}
		tried, released := make(chan error, 1), make(chan error, 1)
		go func() { _, err := c.Mutex("z").TryLock(context.Background()); tried <- err }()
		go func() { released <- leases[0].Release(context.Background()) }()
		synctest.Wait()
		start := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		synctest.Wait()
		for i, l := range leases {
			if l.Err() == nil {
				t.Fatalf("lease %d is not notified", i)
			}
		}
		for _, w := range waits {
			r := <-w
			wantErr(t, r.err, holdfast.ErrClosed)
			if took := r.at.Sub(start); took > primitivetest.ReadTimeout+200*time.Millisecond {
				t.Errorf("a wait ended after %v", took)
			}
		}
		wantErr(t, <-closed, holdfast.ErrUnavailable)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("Close took %v", took)
		}
		wantErr(t, <-tried, holdfast.ErrClosed)
		wantErr(t, <-released, holdfast.ErrUnavailable)
		e.All(nil)
		mustRelease(t, foreign)
	})
}

// A wait whose ctx can end is interrupted by Close although the store hangs.
func TestCloseInterruptsAHungCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		e.All(hang)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		wait := lockSoon(ctx, c.Mutex("y").Lock)
		synctest.Wait()
		start := time.Now()
		go c.Close()
		r := <-wait
		wantErr(t, r.err, holdfast.ErrClosed)
		if took := r.at.Sub(start); took > 200*time.Millisecond {
			t.Errorf("the wait ended after %v", took)
		}
		e.All(nil)
		_ = c.Close() // the store was unavailable; other tests check the error
	})
}

// A grant that was in transit when Close began is released.
func TestCloseWhileAGrantIsOnItsWay(t *testing.T) {
	for _, how := range []string{"Lock", "TryLock"} {
		synctest.Test(t, func(t *testing.T) {
			e := newFaulty()
			c := newClient(t, e)
			e.Set(func() {
				e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
					time.Sleep(time.Second) // the answer was on the wire already
					return e.Engine.Acquire(context.WithoutCancel(ctx), r)
				}
			})
			m := c.Mutex("x", holdfast.WithTTL(time.Hour))
			got := make(chan result, 1)
			go func() {
				lock := m.Lock
				if how == "TryLock" {
					lock = m.TryLock
				}
				l, err := lock(context.Background())
				got <- result{lease: l, err: err}
			}()
			synctest.Wait()
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if r := <-got; r.err == nil && r.lease.Err() == nil {
				t.Error("a closed client handed out a lease that it does not renew")
			}
			wantEmpty(t, e.Engine, "x")
		})
	}
}

func TestCloseWhileListenIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, other := newClient(t, e), newClient(t, e.Engine)
		l := mustLock(t, other.Mutex("x").Lock, context.Background())
		e.Set(func() {
			e.OnListen = func(context.Context) error { time.Sleep(time.Minute); return nil } // deaf to its ctx
		})
		waiter := lockSoon(context.Background(), c.Mutex("x").Lock)
		time.Sleep(time.Second)
		start := time.Now()
		_ = c.Close()
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("Close took %v", took)
		}
		wantErr(t, (<-waiter).err, holdfast.ErrClosed)
		e.Set(func() { e.OnListen = nil })
		mustRelease(t, l)
		time.Sleep(time.Minute)
		synctest.Wait()
		e.Set(func() {
			if e.Streams != 0 {
				t.Errorf("%d streams of a closed client are open", e.Streams)
			}
		})
	})
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	defer leaktest.Check(t)
	e := memory.New()
	for range 20 {
		c, other := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.Mutex("x").Lock, t.Context())
		waits := []<-chan result{lockSoon(t.Context(), other.Mutex("x").Lock), lockSoon(t.Context(), c.Mutex("x").Lock)}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, (<-waits[0]).err, holdfast.ErrClosed)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, (<-waits[1]).err, holdfast.ErrClosed)
		if l.Err() == nil {
			t.Error("held after Close")
		}
	}
}

// A lease that Release could not release, and that has ended by its TTL since, is none that Close reports.
func TestCloseReportsNoLeaseThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		l := mustLock(t, c.Mutex("x", holdfast.WithTTL(time.Second)).Lock, t.Context())
		e.All(hang)
		wantErr(t, l.Release(t.Context()), holdfast.ErrUnavailable)
		time.Sleep(3500 * time.Millisecond) // the release is retried for longer than the TTL
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// A lease that Release, or the end of a linger, could not release is one that Close reports if the
// store has not answered by then.
func TestCloseReportsReleasesThatAreRetried(t *testing.T) {
	for _, linger := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			e := newFaulty()
			c := newClient(t, e)
			l := mustLock(t, c.Mutex("x", holdfast.WithLinger(linger)).Lock, t.Context())
			e.Set(func() {
				e.OnRelease = func(context.Context, engine.Release) error { return engine.ErrUnavailable }
			})
			if err := l.Release(t.Context()); (linger == 0) != errors.Is(err, holdfast.ErrUnavailable) {
				t.Errorf("Release: %v", err)
			}
			time.Sleep(2 * time.Second) // a linger has ended
			err := c.Close()
			if !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), `1 of 1 leases were not released: ["x"]`) {
				t.Errorf("Close: %v, with a linger of %v", err, linger)
			}
		})
	}
}

// A lease that is lost while the store may still have it is released, and Close waits for that, also if it is
// called as soon as the loss is visible. A grant of many leases makes the time between the two long.
func TestCloseWaitsForTheReleaseOfALostLease(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			e := newFaulty()
			c := newClient(t, e)
			rw := c.RWMutex("x", holdfast.WithTTL(time.Second))
			first := mustLock(t, rw.RLock, t.Context())
			for range 10_000 {
				mustLock(t, rw.RLock, t.Context())
			}
			e.Set(func() {
				e.OnRenew = func(c context.Context, b []engine.Renewal) []error { return slices.Repeat([]error{down(c)}, len(b)) }
			})
			<-first.Context().Done()
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if s := look(t, e.Engine, "x"); len(s.Holders) != 0 {
				t.Errorf("after Close the store still has %+v", s.Holders)
			}
		})
	}
}

// Leases that are lost together are released before the hooks have heard of the first, so slow hooks leave none to
// its TTL when the client closes.
func TestCloseAfterManyLossesWithSlowHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		e := newFaulty()
		var lost atomic.Int64
		c := newClient(t, e, holdfast.WithHooks(lostHook(func(*holdfast.LostError) { lost.Add(1); time.Sleep(10 * time.Millisecond) })))
		all := make([]*holdfast.Lease, n)
		for i := range all {
			all[i] = mustLock(t, c.Mutex(fmt.Sprint(i)).Lock, t.Context())
		}
		e.Set(func() {
			e.OnRenew = func(c context.Context, b []engine.Renewal) []error { return slices.Repeat([]error{down(c)}, len(b)) }
		})
		for _, l := range all {
			<-l.Context().Done()
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		for i := range n {
			if s := look(t, e.Engine, fmt.Sprint(i)); len(s.Holders) != 0 {
				t.Fatalf("after Close the store still has %+v", s.Holders)
			}
		}
		if heard := lost.Load(); heard != n {
			t.Errorf("the hook heard of %d losses", heard)
		}
	})
}

// breakAndKeep breaks a lease whose holder keeps it, and returns the client of the holder and the end of the lease's trust window.
func breakAndKeep(t *testing.T, e *faulty) (c *holdfast.Client, end time.Time) {
	t.Helper()
	c, operator := newClient(t, e), newClient(t, e)
	l := mustLock(t, c.Mutex("x").Lock, t.Context())
	end = l.Deadline()
	if err := operator.Break(t.Context(), "x", l.HolderID()); err != nil {
		t.Fatal(err)
	}
	return c, end
}

// A broken lease that its holder keeps is released when its trust window ends, and Close waits for that.
func TestCloseAtTheEndOfABrokenLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, end := breakAndKeep(t, e)
		time.Sleep(time.Until(end))
		synctest.Wait() // the window has ended
		if s := look(t, e.Engine, "x"); len(s.Holders) != 1 {
			t.Fatalf("at the end of the window the store has %+v", s.Holders)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if s := look(t, e.Engine, "x"); len(s.Holders) != 0 {
			t.Errorf("after Close the store still has %+v", s.Holders)
		}
	})
}

// A broken lease whose release the store has refused until its TTL was over is none that Close reports.
func TestCloseAfterABrokenLeaseThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, end := breakAndKeep(t, e)
		e.Set(func() { e.OnRelease = func(ctx context.Context, _ engine.Release) error { return down(ctx) } })
		time.Sleep(time.Until(end) + 2*time.Second) // the release is still retried
		if s := look(t, e.Engine, "x"); len(s.Holders) != 0 {
			t.Fatalf("after its TTL the store has %+v", s.Holders)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// A lease that lingered, and that a Lock was about to replace when the store went away, is one that Close reports.
func TestCloseReportsALeaseThatWasToBeReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		m := c.Mutex("x", holdfast.WithLinger(time.Second))
		mustRelease(t, mustLock(t, m.Lock, t.Context()))
		e.All(down)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		for { // until the tokens of the lease are too far ahead of the clock
			l, err := m.Lock(ctx)
			if err != nil {
				break
			}
			mustRelease(t, l)
		}
		if s := look(t, e.Engine, "x"); len(s.Holders) != 1 {
			t.Fatalf("the store has the leases %+v", s.Holders)
		}
		if err := c.Close(); !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), `1 of 1 leases were not released: ["x"]`) {
			t.Errorf("Close: %v", err)
		}
	})
}

// A lease whose renewal was overdue when the client closes ends that too, also if a reader has entered it again.
func TestCloseEndsTheJeopardyOfAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, j := newFaulty(), &jeopardies{}
		rw := newClient(t, e, holdfast.WithHooks(j))
		m := rw.RWMutex("x", holdfast.WithReentrancy())
		l := mustLock(t, m.RLock, t.Context())
		mustLock(t, m.RLock, l.Context())
		mustRelease(t, l)
		e.Set(func() {
			e.OnRenew = func(c context.Context, b []engine.Renewal) []error { return slices.Repeat([]error{down(c)}, len(b)) }
		})
		time.Sleep(11 * time.Second)
		if j.started.Load() != 1 {
			t.Fatalf("%d renewals are overdue", j.started.Load())
		}
		if err := rw.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if j.ended.Load() != 1 {
			t.Errorf("%d of 1 are over", j.ended.Load())
		}
	})
}

// jeopardies counts overdue renewals.
type jeopardies struct{ started, ended atomic.Int64 }

func (j *jeopardies) JeopardyStart(holdfast.JeopardyStartEvent) { j.started.Add(1) }
func (j *jeopardies) JeopardyEnd(holdfast.JeopardyEndEvent)     { j.ended.Add(1) }
