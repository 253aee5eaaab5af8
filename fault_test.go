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
)

type acquireFunc = func(ctx context.Context, r engine.Request) (engine.Answer, error)

// once answers the first request by first, and all others as the store does.
func (f *faulty) once(first acquireFunc) (seen func() engine.Request) {
	var r engine.Request
	f.Set(func() {
		f.OnAcquire = func(ctx context.Context, got engine.Request) (engine.Answer, error) {
			f.Set(func() { r, f.OnAcquire = got, nil })
			return first(ctx, got)
		}
	})
	return func() (first engine.Request) {
		f.Set(func() { first = r })
		return first
	}
}

// replay is a copy of a request that arrives late: it must leave nothing behind.
func (f *faulty) replay(t *testing.T, r engine.Request) {
	t.Helper()
	a, err := f.Engine.Acquire(context.Background(), r)
	if !errors.Is(err, engine.ErrEnded) {
		t.Errorf("a late copy of the request was answered %v, %v", a.Status, err)
	}
	wantEmpty(t, f.Engine, r.Resource.Name)
}

func TestReplyOfAcquireLost(t *testing.T) {
	for _, how := range []string{"Lock", "TryLock"} {
		for _, done := range []bool{true, false} {
			t.Run(fmt.Sprint(how, " done:", done), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newFaulty()
					seen := e.once(func(ctx context.Context, r engine.Request) (engine.Answer, error) {
						if done {
							_, _ = e.Engine.Acquire(ctx, r)
						}
						return engine.Answer{}, down(ctx)
					})
					m := newClient(t, e).Mutex("x")
					lock := m.Lock
					if how == "TryLock" {
						lock = m.TryLock
					}
					start := time.Now()
					l, err := lock(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(start); took > 100*time.Millisecond {
						t.Errorf("took %v: it waited for itself", took)
					}
					if s := look(t, e.Engine, "x"); len(s.Holders) != 1 || s.Holders[0].ID != l.HolderID() || s.Holders[0].Token != l.Token() {
						t.Errorf("holders %+v", s.Holders)
					}
					mustRelease(t, l)
					wantEmpty(t, e.Engine, "x")
					e.replay(t, seen())
				})
			})
		}
	}
}

// A lease whose acquire went unanswered is not yielded, since its ID must be
// withdrawn: a copy of the request may still arrive.
func TestUnansweredGrantIsReleasedNotYielded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		seen := e.once(func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			return engine.Answer{}, down(ctx)
		})
		m := newClient(t, e).Mutex("x")
		l := mustLock(t, m.Lock, context.Background())
		time.Sleep(time.Second) // longer than a slice: it is released to the store
		next := lockSoon(context.Background(), m.Lock)
		synctest.Wait()
		mustRelease(t, l)
		r := wantGrant(t, next)
		mustRelease(t, r.lease)
		e.replay(t, seen())
	})
}

func TestContextEndsInMidAcquire(t *testing.T) {
	never := errors.New("not granted")
	for name, first := range map[string]func(e *faulty) acquireFunc{
		"done, answer lost": func(e *faulty) acquireFunc {
			return func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				_, _ = e.Engine.Acquire(ctx, r)
				return engine.Answer{}, hang(ctx)
			}
		},
		"done after the end": func(e *faulty) acquireFunc {
			return func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				<-ctx.Done()
				_, _ = e.Engine.Acquire(context.WithoutCancel(ctx), r)
				return engine.Answer{}, hang(ctx)
			}
		},
		"granted after the end": func(e *faulty) acquireFunc {
			return func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				<-ctx.Done()
				return e.Engine.Acquire(context.WithoutCancel(ctx), r)
			}
		},
		"done a second later": func(e *faulty) acquireFunc {
			return func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				<-ctx.Done()
				go func() {
					time.Sleep(time.Second)
					_, _ = e.Engine.Acquire(context.WithoutCancel(ctx), r)
				}()
				return engine.Answer{}, fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
			}
		},
		"an error of no known kind": func(e *faulty) acquireFunc {
			return func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				<-ctx.Done()
				_, _ = e.Engine.Acquire(context.WithoutCancel(ctx), r)
				return engine.Answer{}, ctx.Err()
			}
		},
	} {
		for _, how := range []string{"Lock", "TryLock"} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newFaulty()
					e.once(first(e))
					m := newClient(t, e).Mutex("x")
					ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, never)
					defer cancel()
					lock := m.Lock
					if how == "TryLock" {
						lock = m.TryLock
					}
					start := time.Now()
					l, err := lock(ctx)
					if took := time.Since(start); took > time.Second+200*time.Millisecond {
						t.Errorf("returned after %v", took)
					}
					switch {
					case err == nil:
						mustRelease(t, l)
					case name != "an error of no known kind":
						wantErr(t, err, holdfast.ErrNotAcquired, never)
					}
					time.Sleep(2 * time.Second)
					synctest.Wait()
					wantEmpty(t, e.Engine, "x")
				})
			})
		}
	}
}

func TestHungStoreDoesNotBlockCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		l := mustLock(t, c.Mutex("held", holdfast.WithTTL(time.Hour)).Lock, context.Background())
		detach := mustLock(t, c.Mutex("other", holdfast.WithTTL(time.Hour)).Lock, context.Background())
		e.All(hang)
		for name, call := range map[string]func(ctx context.Context) error{
			"Lock": func(ctx context.Context) error { _, err := c.Mutex("x").Lock(ctx); return err },
			"Lock, no tenure": func(ctx context.Context) error {
				_, err := c.Mutex("x", holdfast.WithoutTenure()).Lock(ctx)
				return err
			},
			"TryLock":         func(ctx context.Context) error { _, err := c.Mutex("x").TryLock(ctx); return err },
			"TryLock of held": func(ctx context.Context) error { _, err := c.Mutex("held").TryLock(ctx); return err },
			"Do": func(ctx context.Context) error {
				return c.Mutex("x").Do(ctx, func(context.Context) error { return nil })
			},
			"Release":          func(ctx context.Context) error { return l.Release(ctx) },
			"Detach":           func(ctx context.Context) error { _, err := detach.Detach(ctx); return err },
			"Detach, no limit": func(context.Context) error { _, err := detach.Detach(context.Background()); return err },
		} {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			start := time.Now()
			wantErr(t, call(ctx), holdfast.ErrUnavailable)
			if took := time.Since(start); took > 5*time.Second+150*time.Millisecond {
				t.Errorf("%s returned after %v", name, took)
			}
			cancel()
		}
		e.All(nil)
		mustRelease(t, detach)
	})
}

func TestPermanentErrorsComeBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		e.All(denied)
		start := time.Now()
		mustNotLock(t, c.Mutex("x").Lock, context.Background(), holdfast.ErrDenied)
		mustNotLock(t, c.Mutex("x").TryLock, context.Background(), holdfast.ErrDenied)
		if took := time.Since(start); took > 0 {
			t.Errorf("took %v", took)
		}
		e.All(nil)
		mustRelease(t, mustLock(t, c.Mutex("x").Lock, context.Background()))
	})
}

// While the store is unavailable, Lock retries and TryLock returns ErrUnavailable. Both recover.
func TestStoreComesBack(t *testing.T) {
	for name, fault := range map[string]func(context.Context) error{"down": down, "hung": hang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c, other := newClient(t, e), newClient(t, e)
				l := mustLock(t, c.Mutex("x", holdfast.WithoutRenewal(), holdfast.WithTTL(10*time.Second)).Lock, context.Background())
				waiter := lockSoon(context.Background(), other.Mutex("x").Lock)
				synctest.Wait()
				e.All(fault)
				time.Sleep(time.Minute)
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				mustNotLock(t, c.Mutex("y").TryLock, ctx, holdfast.ErrNotAcquired, holdfast.ErrUnavailable)
				mustNotLock(t, c.Mutex("y").Lock, ctx, holdfast.ErrNotAcquired, context.DeadlineExceeded)
				e.All(nil)
				back := time.Now()
				r := wantGrant(t, waiter)
				if took := r.at.Sub(back); took > 4*time.Second { // a hung request and the pause after it
					t.Errorf("the waiter recovered after %v", took)
				}
				mustRelease(t, r.lease)
				wantErr(t, l.Release(context.Background()), holdfast.ErrLost)
				time.Sleep(10 * time.Second)
				wantEmpty(t, e.Engine, "x")
				wantEmpty(t, e.Engine, "y")
			})
		})
	}
}

func TestEndedIDIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		seen := e.once(func(context.Context, engine.Request) (engine.Answer, error) {
			return engine.Answer{}, &engine.EndedError{Cause: engine.CauseExpired}
		})
		m := newClient(t, e).Mutex("x")
		l := mustLock(t, m.Lock, context.Background())
		if l.HolderID() == seen().ID {
			t.Error("the ended ID is used again")
		}
		mustRelease(t, l)
	})
}

// A store that never accepts an ID is not called in a hot loop.
func TestStoreThatEndsEveryID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.Set(func() {
			e.OnAcquire = func(context.Context, engine.Request) (engine.Answer, error) {
				return engine.Answer{}, &engine.EndedError{Cause: engine.CauseExpired}
			}
		})
		m := newClient(t, e).Mutex("x")
		mustNotLock(t, m.TryLock, context.Background(), holdfast.ErrNotAcquired, holdfast.ErrUnavailable)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		mustNotLock(t, m.Lock, ctx, holdfast.ErrNotAcquired, context.DeadlineExceeded)
		if n := e.Count("acquire"); n > 120 {
			t.Errorf("%d requests in a minute", n)
		}
	})
}

func TestBrokenWait(t *testing.T) {
	for _, deliver := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			e := newFaulty()
			c, waiting := newClient(t, e), newClient(t, e)
			e.Set(func() { e.OnWake = func(engine.Wakeup) bool { return deliver } })
			l := mustLock(t, c.Mutex("x").Lock, context.Background())
			first := lockSoon(context.Background(), waiting.Mutex("x").Lock)
			synctest.Wait()
			second := lockSoon(context.Background(), waiting.Mutex("x").Lock) // behind it in the process
			synctest.Wait()
			s := look(t, e.Engine, "x")
			if len(s.Waiters) != 1 {
				t.Fatalf("waiters %+v", s.Waiters)
			}
			start := time.Now()
			if err := c.Break(context.Background(), "x", s.Waiters[0].ID); err != nil {
				t.Fatal(err)
			}
			r := <-first
			wantErr(t, r.err, holdfast.ErrNotAcquired)
			if took := r.at.Sub(start); deliver && took > 0 || took > 1100*time.Millisecond {
				t.Errorf("wake-up delivered: %v; took %v", deliver, took)
			}
			mustRelease(t, l)
			if r := <-second; r.err != nil {
				t.Errorf("the caller behind: %v", r.err)
			} else {
				mustRelease(t, r.lease)
			}
			wantEmpty(t, e.Engine, "x")
		})
	}
}

// The error of a wait reports the trouble of the store only if the latest request failed.
func TestTroubleThatIsOverIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		mustLock(t, newClient(t, e).Mutex("x").Lock, context.Background())
		m := newClient(t, e).Mutex("x")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		got := lockSoon(ctx, m.Lock)
		time.Sleep(2 * time.Second)
		e.All(down)
		time.Sleep(2 * time.Second)
		e.All(nil)
		r := <-got
		wantErr(t, r.err, holdfast.ErrNotAcquired, context.DeadlineExceeded)
		if errors.Is(r.err, holdfast.ErrUnavailable) {
			t.Errorf("the store has answered since: %v", r.err)
		}
	})
}
