package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// waitOut is what a Wait returned, and when.
type waitOut struct {
	err error
	at  time.Time
}

func waitLatch(ctx context.Context, l *holdfast.Latch) <-chan waitOut {
	got := make(chan waitOut, 1)
	go func() {
		err := l.Wait(ctx)
		got <- waitOut{err, time.Now()}
	}()
	return got
}

func mustSet(t *testing.T, l *holdfast.Latch, count int) {
	t.Helper()
	if set, err := l.TrySet(context.Background(), count); !set || err != nil {
		t.Fatalf("TrySet: %v, %v", set, err)
	}
}

func mustCount(t *testing.T, l *holdfast.Latch) {
	t.Helper()
	if err := l.CountDown(context.Background()); err != nil {
		t.Fatalf("CountDown: %v", err)
	}
}

func wantCount(t *testing.T, l *holdfast.Latch, want int) {
	t.Helper()
	if n, err := l.Count(context.Background()); n != want || err != nil {
		t.Errorf("Count: %d, %v; want %d", n, err, want)
	}
}

// wantOpened checks that a Wait has gone on within d.
func wantOpened(t *testing.T, got <-chan waitOut, within time.Duration) {
	t.Helper()
	start := time.Now()
	if r := <-got; r.err != nil {
		t.Errorf("Wait: %v", r.err)
	} else if d := r.at.Sub(start); d > within {
		t.Errorf("Wait went on %v later; want at most %v", d, within)
	}
}

func wantStill(t *testing.T, got <-chan waitOut) {
	t.Helper()
	select {
	case r := <-got:
		t.Errorf("Wait ended early: %v", r.err)
	default:
	}
}

// Many clients count down at the same time, and all waiters go on at the last one.
func TestLatchCountsToZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		const parts = 20
		first := newClient(t, e).Latch("parts")
		mustSet(t, first, parts)
		var waiters []<-chan waitOut
		for range 10 {
			l := newClient(t, e).Latch("parts")
			waiters = append(waiters, waitLatch(ctx, l), waitLatch(ctx, l))
		}
		time.Sleep(time.Minute)
		var wg sync.WaitGroup
		for range parts - 1 {
			l := newClient(t, e).Latch("parts")
			wg.Go(func() {
				if err := l.CountDown(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		wantCount(t, first, 1)
		for _, w := range waiters {
			wantStill(t, w)
		}
		mustCount(t, first)
		for _, w := range waiters {
			wantOpened(t, w, 0)
		}
		wantCount(t, first, 0)
		mustCount(t, first) // of zero: nothing
		wantOpened(t, waitLatch(ctx, first), 0)
		wantEmpty(t, e, "parts")
	})
}

// That a latch has opened does not mean that the work of a Once by the same name
// was done.
func TestLatchIsNoMarkForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		c := newClient(t, e)
		l := c.Latch("batch")
		mustSet(t, l, 1)
		mustCount(t, l)
		wantOpened(t, waitLatch(ctx, l), 0)
		wantTurn(t, <-once(ctx, c, "batch", time.Hour, never(t)), false, holdfast.ErrMismatch)
	})
}

// The first to set it wins, until it is zero again; each round counts for itself.
func TestLatchTrySet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		a, b := newClient(t, e).Latch("parts"), newClient(t, e).Latch("parts", holdfast.WithReason("nightly"))
		wantOpened(t, waitLatch(ctx, a), 0) // it is not set
		mustCount(t, a)
		for round := range 3 {
			mustSet(t, b, round+1)
			if set, err := a.TrySet(ctx, 5); set || err != nil {
				t.Errorf("set already: %v, %v", set, err)
			}
			w := waitLatch(ctx, a)
			for n := range round + 1 {
				synctest.Wait()
				wantStill(t, w)
				wantCount(t, a, round+1-n)
				mustCount(t, a)
			}
			wantOpened(t, w, 0)
			wantCount(t, b, 0)
		}
		mustSet(t, a, 1)
	})
}

// A lost reply never counts twice, and never sets twice.
func TestLatchLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		l := newClient(t, net).Latch("parts")
		loseEvery(net, 2)
		mustSet(t, l, 10)
		w := waitLatch(ctx, newClient(t, net).Latch("parts"))
		for n := range 10 {
			wantStill(t, w)
			wantCount(t, l, 10-n)
			mustCount(t, l)
			time.Sleep(3 * time.Second)
		}
		wantOpened(t, w, 0)
	})
}

// The nodes of a quorum may grant the request after the answer that they had not: then the holder of the latch is the request itself.
func TestLatchSetFindsItself(t *testing.T) {
	e := &hasty{Engine: memory.New()}
	mustSet(t, newClient(t, e).Latch("x"), 2)
	if !e.said.Load() {
		t.Error("the request was not answered too early")
	}
}

// hasty is an engine whose first answer about the gate of a latch is that it is busy, although it was granted.
type hasty struct {
	engine.Engine
	said atomic.Bool
}

func (e *hasty) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	a, err := e.Engine.Acquire(ctx, r)
	if a.Status == engine.Granted && r.Kind == engine.KindLatch && !e.said.Swap(true) {
		return engine.Answer{Status: engine.Busy}, nil
	}
	return a, err
}

// The reply to TrySet is lost, and before the second copy arrives all has been
// counted: the latch is not set again.
func TestLatchSetCopyComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFaulty()
		c, other := newClient(t, net), newClient(t, net.Engine).Latch("parts")
		net.Set(func() {
			net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				net.Set(func() { net.OnAcquire = nil })
				if _, err := net.Engine.Acquire(ctx, r); err != nil {
					t.Error(err)
				}
				mustCount(t, other)
				return engine.Answer{}, down(ctx)
			}
		})
		mustSet(t, c.Latch("parts"), 1)
		wantCount(t, other, 0)
		wantEmpty(t, net.Engine, "parts")
	})
}

// A copy of the request of a TrySet that returned false, since the latch was set, arrives when that
// latch has ended: nothing is set.
func TestLatchCopyOfARefusedSetComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFaulty()
		c, other := newClient(t, net), newClient(t, net.Engine)
		mustSet(t, other.Latch("parts", holdfast.WithTTL(10*time.Second)), 1)
		var late engine.Request
		net.Set(func() {
			net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				net.Set(func() { net.OnAcquire = nil })
				late = r
				return engine.Answer{}, down(ctx)
			}
		})
		if set, err := c.Latch("parts").TrySet(context.Background(), 3); set || err != nil {
			t.Fatalf("TrySet: %v, %v", set, err)
		}
		time.Sleep(10 * time.Second) // the TTL of the latch
		if _, err := net.Engine.Acquire(context.Background(), late); !errors.Is(err, engine.ErrEnded) {
			t.Errorf("the copy: %v", err)
		}
		wantCount(t, other.Latch("parts"), 0)
	})
}

// The process that counts down last dies before it opens the latch. The waiters open it.
func TestLatchLastCounterDies(t *testing.T) {
	for _, who := range []string{"wait", "count", "set"} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, ctx := newFaulty(), context.Background()
				dying, other := newClient(t, net).Latch("parts"), newClient(t, net.Engine).Latch("parts")
				mustSet(t, other, 1)
				net.Set(func() {
					net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
						a, err := net.Engine.Acquire(ctx, r)
						if r.Kind != engine.KindLatch {
							net.All(down) // it takes its count and is gone
						}
						return a, err
					}
				})
				var w <-chan waitOut
				if who == "wait" {
					w = waitLatch(ctx, other)
					synctest.Wait()
				}
				short, cancel := context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
				if err := dying.CountDown(short); err != nil {
					t.Errorf("it has counted: %v", err)
				}
				switch who {
				case "wait":
					wantStill(t, w)
					wantOpened(t, w, 1100*time.Millisecond)
				case "count":
					wantCount(t, other, 0)
				case "set":
					mustSet(t, other, 1)
					wantCount(t, other, 1)
					return
				}
				wantEmpty(t, net.Engine, "parts")
			})
		})
	}
}

// Without wake-ups everything takes a poll longer.
func TestLatchLostWakeups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		net.Set(func() { net.OnWake = func(engine.Wakeup) bool { return false } })
		l := newClient(t, net.Engine).Latch("parts", holdfast.WithTTL(time.Minute))
		for range 2 {
			mustSet(t, l, 1)
			var waiters []<-chan waitOut
			for range 20 {
				waiters = append(waiters, waitLatch(ctx, newClient(t, net).Latch("parts")))
			}
			time.Sleep(10 * time.Second)
			mustCount(t, l)
			mustSet(t, l, 1) // the next round is none of their business
			for _, w := range waiters {
				wantOpened(t, w, 1100*time.Millisecond)
			}
			mustCount(t, l)
		}
		mustSet(t, l, 1)
		start := time.Now()
		var waiters []<-chan waitOut
		for range 20 {
			waiters = append(waiters, waitLatch(ctx, newClient(t, net).Latch("parts")))
		}
		for _, w := range waiters {
			r := <-w
			wantErr(t, r.err, holdfast.ErrNotAcquired, holdfast.ErrLatchEnded)
			if d := r.at.Sub(start); d < time.Minute || d > time.Minute+3*time.Second {
				t.Errorf("notified after %v", d)
			}
		}
	})
}

// A latch that is not counted down ends with its TTL, by a break, or with the
// store's data. No waiter takes that for zero.
func TestLatchEnds(t *testing.T) {
	for _, how := range []string{"expired", "broken"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, ctx := memory.New(), context.Background()
				c := newClient(t, e)
				l := c.Latch("parts", holdfast.WithTTL(time.Minute))
				mustSet(t, l, 2)
				mustCount(t, l)
				start, life := time.Now(), time.Minute
				var waiters []<-chan waitOut
				for range 5 {
					waiters = append(waiters, waitLatch(ctx, newClient(t, e).Latch("parts")))
				}
				synctest.Wait()
				if how == "broken" {
					life = 0
					if err := c.Break(ctx, "parts", look(t, e, "parts").Holders[0].ID, holdfast.Force()); err != nil {
						t.Fatal(err)
					}
				}
				for _, w := range waiters {
					r := <-w
					wantErr(t, r.err, holdfast.ErrNotAcquired, holdfast.ErrLatchEnded)
					if d := r.at.Sub(start); d < life || d > life+time.Second {
						t.Errorf("notified after %v", d)
					}
				}
				wantCount(t, l, 0)
				mustSet(t, l, 2)
				wantCount(t, l, 2)
			})
		})
	}
}

// A waiter that is cut off while the latch is opened and set again returns when it is
// connected again, and so does one that was cut off until the latch had ended.
func TestLatchWaiterCutOff(t *testing.T) {
	for _, away := range []time.Duration{10 * time.Second, 80 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, ctx := newFaulty(), context.Background()
				l := newClient(t, net.Engine).Latch("parts", holdfast.WithTTL(time.Minute))
				mustSet(t, l, 1)
				w := waitLatch(ctx, newClient(t, net).Latch("parts"))
				synctest.Wait()
				net.Set(func() { net.OnWake = func(engine.Wakeup) bool { return false } })
				net.All(down)
				mustCount(t, l)
				mustSet(t, l, 1)
				time.Sleep(away)
				wantStill(t, w)
				net.All(nil)
				wantOpened(t, w, 3*time.Second)
			})
		})
	}
}

func TestLatchErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		c := newClient(t, net)
		for _, l := range []*holdfast.Latch{
			c.Latch(""), c.Latch(strings.Repeat("x", 486)), c.Latch("x", holdfast.WithTTL(time.Millisecond)),
			c.Latch("x", nil), c.Latch("x", holdfast.WithFallback(holdfast.FailOpen)),
		} {
			_, err := l.TrySet(ctx, 1)
			wantErr(t, err, holdfast.ErrInvalid)
			_, err = l.Count(ctx)
			wantErr(t, err, holdfast.ErrInvalid)
			wantErr(t, l.CountDown(ctx), holdfast.ErrInvalid)
			wantErr(t, l.Wait(ctx), holdfast.ErrInvalid)
		}
		l := c.Latch(strings.Repeat("x", 485), holdfast.WithReason(strings.Repeat("r", 256)))
		for _, n := range []int{0, -1, holdfast.MaxCount + 1} {
			_, err := l.TrySet(ctx, n)
			wantErr(t, err, holdfast.ErrInvalid)
		}
		mustSet(t, l, holdfast.MaxCount)
		mustCount(t, l)
		wantCount(t, l, holdfast.MaxCount-1)

		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		wantErr(t, l.Wait(short), holdfast.ErrNotAcquired, context.DeadlineExceeded)
		for _, f := range []func() error{
			func() error { _, err := l.TrySet(short, 1); return err },
			func() error { _, err := l.Count(short); return err },
			func() error { return l.CountDown(short) },
			func() error { return l.Wait(short) },
		} {
			wantErr(t, f(), context.DeadlineExceeded)
		}
		if s := look(t, net.Engine, strings.Repeat("x", 485)); len(s.Waiters) > 0 {
			t.Errorf("left in the queue: %+v", s.Waiters)
		}

		lock := mustLock(t, c.Mutex("used").Lock, ctx)
		_, err := c.Latch("used").TrySet(ctx, 1)
		wantErr(t, err, holdfast.ErrMismatch)
		wantErr(t, c.Latch("used").CountDown(ctx), holdfast.ErrMismatch)
		mustRelease(t, lock)
		wantTurn(t, <-once(ctx, c, "done", time.Hour, fine), true)
		_, err = c.Latch("done").TrySet(ctx, 1)
		wantErr(t, err, holdfast.ErrMismatch) // the mark is not a latch's
		wantTurn(t, <-once(ctx, c, "done", time.Hour, never(t)), false)

		waiting := waitLatch(ctx, l)
		synctest.Wait()
		net.All(denied)
		wantErr(t, l.CountDown(ctx), holdfast.ErrDenied)
		wantErr(t, (<-waiting).err, holdfast.ErrDenied)
		net.All(nil)
		waiting = waitLatch(ctx, l)
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, (<-waiting).err, holdfast.ErrClosed)
		wantErr(t, l.CountDown(ctx), holdfast.ErrClosed)
		wantErr(t, l.Wait(ctx), holdfast.ErrClosed)
		if _, err := l.TrySet(ctx, 1); !errors.Is(err, holdfast.ErrClosed) {
			t.Error(err)
		}
	})
}

// A TrySet whose ctx ended without an answer is undone when the store can be reached again.
func TestLatchSetWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFaulty()
		l := newClient(t, net).Latch("parts")
		loseEvery(net, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_, err := l.TrySet(ctx, 1)
		wantErr(t, err, context.DeadlineExceeded, holdfast.ErrUnavailable)
		net.All(nil)
		time.Sleep(2 * time.Second)
		wantEmpty(t, net.Engine, "parts")
	})
}

// loseEvery makes every n-th request take effect without an answer.
func loseEvery(net *faulty, n int64) {
	var calls atomic.Int64
	lost := func() error {
		if calls.Add(1)%n == 0 {
			return fmt.Errorf("%w: connection reset", engine.ErrUnavailable)
		}
		return nil
	}
	net.Set(func() {
		net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			a, err := net.Engine.Acquire(ctx, r)
			if l := lost(); l != nil {
				return engine.Answer{}, l
			}
			return a, err
		}
		net.OnRelease = func(ctx context.Context, r engine.Release) error {
			err := net.Engine.Release(ctx, r)
			return errors.Join(lost(), err)
		}
	})
}

// A waiter that was cut off is of the round for which it waits, also if the latch has been set
// again meanwhile.
func TestLatchWaiterIsOfItsRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		c := newClient(t, net.Engine)
		l := c.Latch("parts")
		mustSet(t, l, 2)
		w := waitLatch(ctx, newClient(t, net).Latch("parts"))
		synctest.Wait()
		net.Set(func() { net.OnWake = func(engine.Wakeup) bool { return false } })
		net.All(down)
		if err := c.Break(ctx, "parts", look(t, net, "parts").Holders[0].ID, holdfast.Force()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // the waiter is granted the gate, and does not learn of it
		mustSet(t, l, 2)
		net.All(nil)
		back := time.Now()
		r := <-w
		wantErr(t, r.err, holdfast.ErrNotAcquired, holdfast.ErrLatchEnded)
		if d := r.at.Sub(back); d > 3*time.Second {
			t.Errorf("notified %v after it was connected again", d)
		}
		wantCount(t, l, 2)
	})
}

// The mark shows that the count was zero, also if the units are gone.
func TestLatchIsOpenByItsMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		c := newClient(t, net.Engine)
		l := c.Latch("parts")
		mustSet(t, l, 1)
		units := fmt.Sprintf("parts/latch/%d", look(t, net, "parts").Holders[0].Token)
		w := waitLatch(ctx, newClient(t, net).Latch("parts"))
		synctest.Wait()
		net.Set(func() { // the waiter's place in the queue is cut off, what it reads is not
			net.OnWake = func(engine.Wakeup) bool { return false }
			net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				if r.Queue {
					return engine.Answer{}, down(ctx)
				}
				return net.Engine.Acquire(ctx, r)
			}
		})
		mustCount(t, l)
		if err := c.Break(ctx, units, look(t, net, units).Holders[0].ID, holdfast.Force()); err != nil {
			t.Fatal(err)
		}
		wantOpened(t, w, 3*time.Second)
	})
}
