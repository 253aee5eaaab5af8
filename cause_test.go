package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A ctx may end for a cause that is the error of another lock: an errgroup ends all its
// goroutines with the error of the first. It must not be taken for what became of this
// one.

// TestCauseThatLooksLikeAnAnswer: the request is under way when ctx ends, and arrives
// after the clean-up.
func TestCauseThatLooksLikeAnAnswer(t *testing.T) {
	for _, why := range []error{holdfast.ErrDenied, holdfast.ErrMismatch, holdfast.ErrTooHeavy, engine.ErrEnded, errors.New("plain")} {
		t.Run(why.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				arrived := make(chan struct{})
				e.Set(func() {
					e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
						<-ctx.Done()
						go func() {
							defer close(arrived)
							time.Sleep(time.Second)
							_, _ = e.Engine.Acquire(context.WithoutCancel(ctx), r)
						}()
						return engine.Answer{}, fmt.Errorf("%w: %w", engine.ErrUnavailable, context.Cause(ctx)) // as every engine does
					}
				})
				m := newClient(t, e).Mutex("x", holdfast.WithTTL(time.Hour))
				ctx, cancel := context.WithCancelCause(context.Background())
				got := lockSoon(ctx, m.Lock)
				synctest.Wait()
				cancel(fmt.Errorf("another goroutine failed: %w", why))
				r := <-got
				wantErr(t, r.err, holdfast.ErrNotAcquired, why)
				<-arrived
				time.Sleep(2 * time.Second)
				wantEmpty(t, e.Engine, "x")
			})
		})
	}
}

// brokenWait returns the error of a wait that an operator broke.
func brokenWait(t *testing.T) error {
	t.Helper()
	e := memory.New()
	c := newClient(t, e)
	l := mustLock(t, c.Mutex("other").Lock, context.Background())
	got := lockSoon(context.Background(), c.Mutex("other", holdfast.WithoutTenure()).Lock)
	synctest.Wait()
	if err := c.Break(context.Background(), "other", look(t, e, "other").Waiters[0].ID); err != nil {
		t.Fatal(err)
	}
	r := <-got
	mustRelease(t, l)
	return r.err
}

// TestLeadEndsForACauseThatIsABrokenWait runs in real time: a Lead that goes round and
// round would stop the clock of a bubble.
func TestLeadEndsForACauseThatIsABrokenWait(t *testing.T) {
	var cause error
	synctest.Test(t, func(t *testing.T) { cause = brokenWait(t) })
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	out := make(chan error, 1)
	c := newClient(t, memory.New())
	go func() {
		out <- c.Election("e").Lead(ctx, "v", func(context.Context) error { return nil })
	}()
	select {
	case err := <-out:
		wantErr(t, err, cause)
	case <-time.After(5 * time.Second):
		t.Error("Lead has not returned 5 s after its ctx ended")
	}
}

func TestCauseThatIsAnotherMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New())
		bg := context.Background()
		nothing := func(context.Context) error { return nil }
		if _, err := c.Once(bg, "done", time.Hour, nothing); err != nil {
			t.Fatal(err)
		}
		_, cause := c.Mutex("done").Lock(bg) // a name used for two things by mistake
		ended, cancel := context.WithCancelCause(bg)
		cancel(cause)
		if ran, err := c.Once(ended, "fresh", time.Hour, nothing); err == nil {
			t.Errorf("Once of what nobody has done, with a ctx that has ended: %v and no error", ran)
		}
		latch := c.Latch("l")
		if _, err := latch.TrySet(bg, 1); err != nil {
			t.Fatal(err)
		}
		if latch.Wait(ended) == nil {
			t.Error("Wait with a ctx that has ended says that the count is zero")
		}
		ctx, cancel := context.WithCancelCause(bg)
		out := make(chan error, 1)
		go func() { out <- latch.Wait(ctx) }()
		synctest.Wait()
		cancel(cause)
		if <-out == nil {
			t.Error("Wait whose ctx ends says that the count is zero")
		}
	})
}
