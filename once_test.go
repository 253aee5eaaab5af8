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
	"github.com/holdfast-go/holdfast/engine/memory"
)

var errFailed = errors.New("it failed")

// turnOut is what a Once or Run returned.
type turnOut struct {
	ran bool
	err error
}

// once runs in the background.
func once(ctx context.Context, c *holdfast.Client, id string, keep time.Duration, fn func(context.Context) error) <-chan turnOut {
	got := make(chan turnOut, 1)
	go func() {
		ran, err := c.Once(ctx, id, keep, fn)
		got <- turnOut{ran, err}
	}()
	return got
}

func fine(context.Context) error { return nil }

func never(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("it ran, although it was done before")
		return nil
	}
}

func wantTurn(t *testing.T, got turnOut, ran bool, targets ...error) {
	t.Helper()
	if got.ran != ran {
		t.Errorf("ran: %v, want %v", got.ran, ran)
	}
	if len(targets) > 0 {
		wantErr(t, got.err, targets...)
	} else if got.err != nil {
		t.Errorf("error: %v", got.err)
	}
}

func TestOnceKeepsTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		a, b := newClient(t, e), newClient(t, e)
		wantTurn(t, <-once(ctx, a, "m", time.Hour, func(ctx context.Context) error {
			if l := holdfast.LeaseFromContext(ctx); l == nil || l.Err() != nil || l.Token() == 0 {
				t.Errorf("the ctx carries the lease %v", l)
			}
			time.Sleep(time.Minute) // the lease is renewed
			return ctx.Err()
		}), true)
		time.Sleep(time.Hour - time.Millisecond)
		wantTurn(t, <-once(ctx, b, "m", time.Hour, never(t)), false)
		wantTurn(t, <-once(ctx, b, "other", time.Hour, fine), true)
		time.Sleep(time.Millisecond)
		wantTurn(t, <-once(ctx, b, "m", time.Hour, fine), true)
	})
}

// Calls during a run wait. If it fails, the first of them runs, and the others find the
// work done.
func TestOnceFailedIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		first := once(ctx, newClient(t, e), "m", time.Hour, func(context.Context) error {
			time.Sleep(time.Minute)
			return errFailed
		})
		synctest.Wait()
		second := once(ctx, newClient(t, e), "m", time.Hour, func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		})
		synctest.Wait()
		var later []<-chan turnOut
		for range 5 {
			later = append(later, once(ctx, newClient(t, e), "m", time.Hour, never(t)))
		}
		wantTurn(t, <-first, true, errFailed)
		wantTurn(t, <-second, true)
		done := time.Now()
		for _, l := range later {
			wantTurn(t, <-l, false)
		}
		if d := time.Since(done); d > 0 {
			t.Errorf("those who waited were sent away %v later", d)
		}
		wantEmpty(t, e, "m")
	})
}

// If the process of a run dies, the next run begins after the TTL; if fn panics, at once.
func TestOnceDeadAndPanicking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		dying := newClient(t, net)
		release := make(chan struct{})
		dead := once(ctx, dying, "m", time.Hour, func(context.Context) error {
			<-release
			return nil
		})
		synctest.Wait()
		net.All(down) // from now on no call gets through
		start := time.Now()
		wantTurn(t, <-once(ctx, newClient(t, net.Engine), "m", time.Hour, fine), true)
		if d := time.Since(start); d > holdfast.DefaultTTL+time.Second {
			t.Errorf("followed after %v", d)
		}
		close(release)
		wantTurn(t, <-dead, true, holdfast.ErrLost)

		c := newClient(t, net.Engine)
		func() {
			defer func() {
				if recover() != "oh" {
					t.Error("the panic was not passed on")
				}
			}()
			_, _ = c.Once(ctx, "p", time.Hour, func(context.Context) error { panic("oh") })
		}()
		wantTurn(t, <-once(ctx, c, "p", time.Hour, fine), true)
	})
}

// fn returns while the store is unavailable: the mark is retried until the lease must
// have expired, and without a confirmed mark no call returns without an error.
func TestOnceStoreAwayAtTheEnd(t *testing.T) {
	for _, tc := range []struct {
		away time.Duration
		err  error
	}{{5 * time.Second, nil}, {time.Minute, holdfast.ErrUnavailable}} {
		t.Run(tc.away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, ctx := newFaulty(), context.Background()
				got := once(ctx, newClient(t, net), "m", time.Hour, func(context.Context) error {
					net.All(down)
					time.AfterFunc(tc.away, func() { net.All(nil) })
					return nil
				})
				r := <-got
				if tc.err == nil {
					wantTurn(t, r, true)
					wantTurn(t, <-once(ctx, newClient(t, net.Engine), "m", time.Hour, never(t)), false)
					return
				}
				wantTurn(t, r, true, tc.err)
				wantTurn(t, <-once(ctx, newClient(t, net.Engine), "m", time.Hour, fine), true)
				time.Sleep(time.Minute)
			})
		})
	}
}

// A mark whose confirmation was lost is confirmed by its second copy.
func TestOnceLostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		lose := true
		net.Set(func() {
			net.OnRelease = func(ctx context.Context, r engine.Release) error {
				err := net.Engine.Release(ctx, r)
				if lose {
					lose = false
					return fmt.Errorf("%w: connection reset", engine.ErrUnavailable)
				}
				return err
			}
		})
		wantTurn(t, <-once(ctx, newClient(t, net), "m", time.Hour, fine), true)
		wantTurn(t, <-once(ctx, newClient(t, net.Engine), "m", time.Hour, never(t)), false)
	})
}

// A grant whose answer was lost: the mark is confirmed all the same, and no late
// copy of the request is left behind.
func TestOnceLostGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		lose := true
		var late engine.Request
		net.Set(func() {
			net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				late = r
				a, err := net.Engine.Acquire(ctx, r)
				if lose {
					lose = false
					return engine.Answer{}, fmt.Errorf("%w: connection reset", engine.ErrUnavailable)
				}
				return a, err
			}
		})
		wantTurn(t, <-once(ctx, newClient(t, net), "m", time.Hour, fine), true)
		wantTurn(t, <-once(ctx, newClient(t, net.Engine), "m", time.Hour, never(t)), false)
		synctest.Wait()
		if err := net.Engine.Break(ctx, late.Resource, engine.Break{ID: engine.MarkID}); err != nil {
			t.Fatal(err)
		}
		if _, err := net.Engine.Acquire(ctx, late); !errors.Is(err, engine.ErrEnded) {
			t.Errorf("a late copy of the request: %v", err)
		}
		wantEmpty(t, net.Engine, "m")
	})
}

// The store has lost the lease and the holder has not noticed: fn has returned nil, but
// the call must return an error.
func TestOnceLostUnnoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		net.Set(func() { net.OnWake = func(engine.Wakeup) bool { return false } })
		got := once(ctx, newClient(t, net), "m", time.Hour, func(ctx context.Context) error {
			if err := newClient(t, net.Engine).Break(ctx, "m", holdfast.LeaseFromContext(ctx).HolderID()); err != nil {
				t.Error(err)
			}
			return nil
		})
		r := <-got
		wantTurn(t, r, true, holdfast.ErrLost)
		wantLost(t, r.err, holdfast.LostBroken)
		wantTurn(t, <-once(ctx, newClient(t, net.Engine), "m", time.Hour, fine), true)
	})
}

// Waiting calls find the mark also without wake-ups.
func TestOnceWithoutWakeups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		net.Set(func() { net.OnWake = func(engine.Wakeup) bool { return false } })
		first := once(ctx, newClient(t, net.Engine), "m", time.Hour, func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		})
		synctest.Wait()
		second := once(ctx, newClient(t, net), "m", time.Hour, never(t))
		wantTurn(t, <-first, true)
		done := time.Now()
		wantTurn(t, <-second, false)
		if d := time.Since(done); d > 1100*time.Millisecond {
			t.Errorf("notified %v after the mark", d)
		}
	})
}

// A lease that an operator breaks while fn runs leaves no mark.
func TestOnceBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		a, b := newClient(t, e), newClient(t, e)
		got := once(ctx, a, "m", time.Hour, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		synctest.Wait()
		if err := b.Break(ctx, "m", look(t, e, "m").Holders[0].ID); err != nil {
			t.Fatal(err)
		}
		r := <-got
		wantTurn(t, r, true, holdfast.ErrLost)
		wantLost(t, r.err, holdfast.LostBroken)
		wantTurn(t, <-once(ctx, b, "m", time.Hour, fine), true)
	})
}

func TestOnceErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		c := newClient(t, net)
		for _, keep := range []time.Duration{0, -time.Second, time.Millisecond, holdfast.MaxKeep + 1} {
			wantTurn(t, <-once(ctx, c, "m", keep, never(t)), false, holdfast.ErrInvalid)
		}
		wantTurn(t, <-once(ctx, c, "", time.Hour, never(t)), false, holdfast.ErrInvalid)
		got := once(ctx, c, "m", time.Hour, func(ctx context.Context) error {
			_, err := c.Once(ctx, "m", time.Hour, never(t)) // inside itself
			wantErr(t, err, holdfast.ErrDeadlock)
			wait, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			wantTurn(t, <-once(wait, c, "m", time.Hour, never(t)), false, holdfast.ErrNotAcquired, context.DeadlineExceeded)
			return errFailed
		})
		wantTurn(t, <-got, true, errFailed)
		wantEmpty(t, net.Engine, "m")
		net.All(denied)
		wantTurn(t, <-once(ctx, c, "m", time.Hour, never(t)), false, holdfast.ErrDenied)
		net.All(nil)
		lock := mustLock(t, c.Mutex("used").Lock, ctx)
		wantTurn(t, <-once(ctx, c, "used", time.Hour, never(t)), false, holdfast.ErrMismatch)
		mustRelease(t, lock)
		closing := once(ctx, c, "m", time.Hour, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantTurn(t, <-closing, true, holdfast.ErrClosed)
		wantTurn(t, <-once(ctx, c, "m", time.Hour, never(t)), false, holdfast.ErrClosed)
	})
}

// Many deliver each message many times; each is handled once.
func TestOnceEachMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages, nodes = 40, 5
		e, ctx := memory.New(), context.Background()
		var mu sync.Mutex
		handled := map[string]int{}
		var wg sync.WaitGroup
		for n := range nodes {
			c := newClient(t, e)
			for i := range messages {
				wg.Go(func() {
					id := fmt.Sprintf("message-%d", i)
					_, err := c.Once(ctx, id, time.Hour, func(context.Context) error {
						time.Sleep(time.Duration(n*i) * time.Millisecond)
						if (n+i)%3 == 0 {
							return errFailed
						}
						mu.Lock()
						defer mu.Unlock()
						handled[id]++
						return nil
					})
					if err != nil && !errors.Is(err, errFailed) {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		for i := range messages {
			if n := handled[fmt.Sprintf("message-%d", i)]; n != 1 {
				t.Errorf("message %d was handled %d times", i, n)
			}
		}
	})
}

// refusesMarks is a store that refuses to mark, as one whose memory is full may.
type refusesMarks struct{ engine.Engine }

func (r refusesMarks) Release(ctx context.Context, rel engine.Release) error {
	if rel.Mark > 0 {
		return engine.ErrDenied
	}
	return r.Engine.Release(ctx, rel)
}

// If the store refuses the mark, the lease is released all the same.
func TestOnceMarkRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		c := newClient(t, refusesMarks{store})
		wantTurn(t, <-once(context.Background(), c, "m", time.Hour, fine), true, holdfast.ErrDenied)
		wantEmpty(t, store, "m")
	})
}

// If ctx ends before the store has confirmed the mark, the client continues in the background,
// with the mark.
func TestOnceIsMarkedAlthoughItsContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFaulty()
		ctx, cancel := context.WithCancel(context.Background())
		r := <-once(ctx, newClient(t, net), "m", time.Hour, func(context.Context) error {
			net.All(down)
			cancel()
			return nil
		})
		wantTurn(t, r, true, holdfast.ErrUnavailable)
		net.All(nil)
		wantTurn(t, <-once(context.Background(), newClient(t, net.Engine), "m", time.Hour, never(t)), false)
	})
}

// fn may release its lease itself: then there is no mark, unless the grant has set it.
func TestOnceThatReleasesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c := newClient(t, e)
		for name, end := range map[string]func(*holdfast.Lease) error{
			"release": func(l *holdfast.Lease) error { return l.Release(t.Context()) },
			"detach":  func(l *holdfast.Lease) error { _, err := l.Detach(t.Context()); return err },
		} {
			fn := func(ctx context.Context) error {
				return end(holdfast.LeaseFromContext(ctx))
			}
			ran, err := c.Once(t.Context(), "once-"+name, time.Hour, fn)
			if !ran {
				t.Errorf("%s: not run", name)
			}
			wantErr(t, err, holdfast.ErrReleased)
			if errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
			ran, err = c.Job("job-"+name, holdfast.Every(time.Hour)).Run(t.Context(), fn)
			if !ran || err != nil {
				t.Errorf("%s of a job whose slot is marked: %v, %v", name, ran, err)
			}
		}
	})
}
