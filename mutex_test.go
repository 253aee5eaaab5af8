package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

func TestLockAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		m := newClient(t, e).Mutex("stock:42")
		ctx := context.Background()
		first := mustLock(t, m.Lock, ctx)
		if first.Token() == 0 || first.Tokens()["stock:42"] != first.Token() || first.HolderID() == "" {
			t.Errorf("token %d, tokens %v, holder ID %q", first.Token(), first.Tokens(), first.HolderID())
		}
		if err := first.Err(); err != nil {
			t.Errorf("Err while held: %v", err)
		}
		mustRelease(t, first)
		wantEmpty(t, e, "stock:42")
		second := mustLock(t, m.Lock, ctx)
		if second.Token() <= first.Token() {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		mustRelease(t, second)
	})
}

func TestTryLockNamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		ctx := context.Background()
		holder := newClient(t, e, holdfast.WithName("billing"), holdfast.WithMeta(holdfast.Meta{Host: "node-1", PID: 7}))
		l := mustLock(t, holder.Mutex("x", holdfast.WithReason("nightly run"), holdfast.WithTTL(10*time.Second)).Lock, ctx)
		time.Sleep(time.Second)
		waiting := newClient(t, e)
		wait, cancel := context.WithCancel(ctx)
		got := lockSoon(wait, waiting.Mutex("x").Lock)
		synctest.Wait()

		_, err := newClient(t, e).Mutex("x").TryLock(ctx)
		held, ok := errors.AsType[*holdfast.HeldError](err)
		if !ok || !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Fatalf("TryLock: %v", err)
		}
		want := holdfast.HeldError{Resource: "x", HolderID: l.HolderID(), Name: "billing", Host: "node-1", PID: 7,
			Reason: "nightly run", Since: held.Since, TTL: 9 * time.Second, Waiters: 1}
		if *held != want || time.Since(held.Since) != time.Second {
			t.Errorf("HeldError %+v; want %+v", *held, want)
		}
		for _, part := range []string{`"x"`, "billing", "node-1", "pid 7", "nightly run", "9s", "1 waiting"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("text %q lacks %q", err, part)
			}
		}
		if strings.Contains(err.Error(), l.HolderID()) {
			t.Errorf("text %q has the holder ID, which is a capability", err)
		}
		if n := len(look(t, e, "x").Waiters); n != 1 {
			t.Errorf("%d in the queue after TryLock", n)
		}
		cancel()
		wantErr(t, (<-got).err, holdfast.ErrNotAcquired, context.Canceled)
		if _, err := newClient(t, e).Mutex("x").TryLock(ctx); strings.Contains(err.Error(), "waiting") {
			t.Errorf("text %q speaks of waiters", err)
		}
		mustRelease(t, l)
		wantEmpty(t, e, "x")
	})
}

func TestTryLockIsBusyInTheSameProcessToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		m := newClient(t, e).Mutex("x")
		l := mustLock(t, m.TryLock, t.Context())
		start := time.Now()
		mustNotLock(t, m.TryLock, t.Context(), holdfast.ErrNotAcquired)
		if time.Since(start) > 0 {
			t.Errorf("TryLock took %v", time.Since(start))
		}
		mustRelease(t, l)
		l = mustLock(t, m.TryLock, t.Context())
		mustRelease(t, l)
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		m := newClient(t, e).Mutex("x")
		boom := errors.New("boom")
		if err := m.Do(t.Context(), func(ctx context.Context) error {
			if len(look(t, e, "x").Holders) != 1 || ctx.Err() != nil {
				t.Error("fn does not run under the lease")
			}
			return boom
		}); err != boom {
			t.Errorf("Do: %v", err)
		}
		wantEmpty(t, e, "x")

		func() {
			defer func() {
				if r := recover(); r != "panic" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = m.Do(t.Context(), func(context.Context) error { panic("panic") })
		}()
		wantEmpty(t, e, "x")

		ended, cancel := context.WithCancel(t.Context())
		if err := m.Do(ended, func(context.Context) error { cancel(); return nil }); err != nil {
			t.Errorf("ctx ended in fn: %v", err)
		}
		wantEmpty(t, e, "x")
		wantErr(t, m.Do(ended, func(context.Context) error { t.Error("fn ran"); return nil }), holdfast.ErrNotAcquired, context.Canceled)
	})
}

func TestDoReturnsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newClient(t, memory.New()).Mutex("x", holdfast.WithoutRenewal(), holdfast.WithTTL(time.Second))
		boom := errors.New("boom")
		err := m.Do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return boom
		})
		wantErr(t, err, boom, holdfast.ErrLost)
		wantErr(t, m.Do(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return nil }), holdfast.ErrLost)
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	reason := errors.New("the order was cancelled")
	for name, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cause": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Minute, reason)
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		},
	} {
		for _, opts := range [][]holdfast.LockOption{nil, {holdfast.WithoutTenure()}} {
			for _, where := range []string{"other process", "same process"} {
				t.Run(name+" "+where, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						e := memory.New()
						holder := newClient(t, e)
						l := mustLock(t, holder.Mutex("x", opts...).Lock, context.Background())
						waiter := holder
						if where == "other process" {
							waiter = newClient(t, e)
						}
						ctx, cancel := end(context.Background())
						defer cancel()
						start := time.Now()
						_, err := waiter.Mutex("x", opts...).Lock(ctx)
						wantErr(t, err, holdfast.ErrNotAcquired, context.Cause(ctx))
						if took := time.Since(start); took < time.Minute || took > time.Minute+100*time.Millisecond {
							t.Errorf("returned after %v", took)
						}
						if n := len(look(t, e, "x").Waiters); n != 0 {
							t.Errorf("%d left in the queue", n)
						}
						mustRelease(t, l)
						wantEmpty(t, e, "x")
					})
				})
			}
		}
	}
}

func TestEndedContextMakesNoCall(t *testing.T) {
	e := newFaulty()
	m := newClient(t, e).Mutex("x")
	ctx, cancel := context.WithCancelCause(context.Background())
	reason := errors.New("too late")
	cancel(reason)
	mustNotLock(t, m.Lock, ctx, holdfast.ErrNotAcquired, reason)
	mustNotLock(t, m.TryLock, ctx, holdfast.ErrNotAcquired, reason)
	if e.Count("acquire") != 0 {
		t.Error("the store was called")
	}
}

func TestDeadlockIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c := newClient(t, e)
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		under, cancel := context.WithCancel(context.WithoutCancel(l.Context()))
		defer cancel()
		mustNotLock(t, c.Mutex("x").Lock, under, holdfast.ErrDeadlock, holdfast.ErrNotAcquired)
		mustNotLock(t, c.Mutex("x").TryLock, under, holdfast.ErrDeadlock)
		nested := mustLock(t, c.Mutex("y").Lock, under)
		mustNotLock(t, c.Mutex("x").Lock, nested.Context(), holdfast.ErrDeadlock) // of the outer lease
		mustRelease(t, nested)
		mustRelease(t, l)
		again := mustLock(t, c.Mutex("x").Lock, under) // nothing is held any more
		mustRelease(t, again)
		wantEmpty(t, e, "x")
	})
}

func TestMismatch(t *testing.T) {
	e := newFaulty()
	e.OnAcquire = func(context.Context, engine.Request) (engine.Answer, error) {
		return engine.Answer{}, engine.ErrMismatch
	}
	c := newClient(t, e)
	mustNotLock(t, c.Mutex("x").Lock, t.Context(), holdfast.ErrMismatch)
	mustNotLock(t, c.Mutex("x").TryLock, t.Context(), holdfast.ErrMismatch)
}
