package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// listening returns a client whose stream of wake-ups is open.
func listening(t *testing.T, e engine.Engine, opts ...holdfast.Option) *holdfast.Client {
	t.Helper()
	c := newClient(t, e, opts...)
	l := mustLock(t, c.Mutex("listening").Lock, context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	mustNotLock(t, c.Mutex("listening", holdfast.WithoutTenure()).Lock, ctx, holdfast.ErrNotAcquired)
	mustRelease(t, l)
	return c
}

// A break that comes after the grant and before its answer has come finds the
// attempt and not yet the holding. It is not lost in between.
func TestBreakBeforeTheGrantIsTaken(t *testing.T) {
	for name, opts := range map[string][]holdfast.LockOption{"tenure": nil, "without tenure": {holdfast.WithoutTenure()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c := listening(t, e)
				broken := 0
				e.Set(func() {
					e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
						ans, err := e.Engine.Acquire(ctx, r)
						if broken++; broken == 1 {
							if err := e.Engine.Break(ctx, r.Resource, engine.Break{ID: r.ID}); err != nil || ans.Status != engine.Granted {
								t.Errorf("granted: %v; Break: %v", ans.Status, err)
							}
						}
						return ans, err
					}
				})
				start := time.Now()
				l, err := c.Mutex("x", opts...).Lock(context.Background())
				if err == nil {
					t.Errorf("a lease that was broken: %v", l.Err())
				}
				wantErr(t, err, holdfast.ErrNotAcquired)
				synctest.Wait()
				if took := time.Since(start); took > 0 {
					t.Errorf("notified after %v", took)
				}
				wantEmpty(t, e, "x")
				mustRelease(t, mustLock(t, c.Mutex("x", opts...).Lock, context.Background()))
			})
		})
	}
}

func nothing(context.Context) error { return nil }

// short is a ctx that ends soon.
func short(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// held is a lease that an operator may break, and how the next holder gets in.
type breakable struct {
	resource string
	hold     func(c *holdfast.Client) (*holdfast.Lease, error)
}

func breakables() map[string]breakable {
	ctx := context.Background()
	lock := func(opts ...holdfast.LockOption) func(c *holdfast.Client) (*holdfast.Lease, error) {
		return func(c *holdfast.Client) (*holdfast.Lease, error) { return c.Mutex("x", opts...).Lock(ctx) }
	}
	return map[string]breakable{
		"mutex":           {"x", lock()},
		"without tenure":  {"x", lock(holdfast.WithoutTenure())},
		"without renewal": {"x", lock(holdfast.WithoutRenewal())},
		"local only":      {"x", lock(holdfast.WithFallback(holdfast.LocalOnly))},
		"writer":          {"x", func(c *holdfast.Client) (*holdfast.Lease, error) { return c.RWMutex("x").Lock(ctx) }},
		"semaphore":       {"x", func(c *holdfast.Client) (*holdfast.Lease, error) { return c.Semaphore("x", 3).Acquire(ctx, 2) }},
		"leader":          {"x", func(c *holdfast.Client) (*holdfast.Lease, error) { return c.Election("x").Campaign(ctx, "v") }},
		"multi":           {"y", func(c *holdfast.Client) (*holdfast.Lease, error) { return c.Multi([]string{"x", "y"}).Lock(ctx) }},
		"demoted": {"x", func(c *holdfast.Client) (*holdfast.Lease, error) {
			l, err := c.RWMutex("x").Lock(ctx)
			if err == nil {
				err = l.Demote(ctx)
			}
			return l, err
		}},
		"adopted": {"x", func(c *holdfast.Client) (*holdfast.Lease, error) {
			l, err := c.Mutex("x").Lock(ctx)
			if err != nil {
				return nil, err
			}
			ticket, err := l.Detach(ctx)
			if err != nil {
				return nil, err
			}
			return c.Adopt(ctx, ticket)
		}},
	}
}

// A break ends renewal and notifies the holder at once. The resource is free when the
// holder has released it, and not before, with and without a waiter, in the same
// process and in another.
func TestBreakPassesOnWithTheRelease(t *testing.T) {
	for name, b := range breakables() {
		for _, waits := range []string{"nobody waits", "another process waits", "this process waits"} {
			t.Run(name+"/"+waits, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newFaulty()
					h := &recorder{}
					c, other := newClient(t, e, holdfast.WithHooks(h)), newClient(t, e)
					l, err := b.hold(c)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(1200 * time.Millisecond) // no renewal yet
					next := make(chan result, 1)
					enter := func(c *holdfast.Client) {
						l, err := b.hold(c)
						next <- result{l, err, time.Now()}
					}
					switch waits {
					case "another process waits":
						go enter(other)
					case "this process waits":
						go enter(c)
					}
					synctest.Wait()
					ctx, start := l.Context(), time.Now()
					if err := other.Break(context.Background(), b.resource, look(t, e, b.resource).Holders[0].ID); err != nil {
						t.Fatal(err)
					}
					<-ctx.Done()
					wantLost(t, context.Cause(ctx), holdfast.LostBroken)
					if took := time.Since(start); took > 0 {
						t.Errorf("notified after %v", took)
					}
					renewals := e.Count("renew")
					time.Sleep(3 * time.Second)
					if s := look(t, e, b.resource); len(s.Holders) != 1 || !s.Holders[0].Breaking || len(next) > 0 {
						t.Fatalf("the holder is still inside, and %d entered: %+v", len(next), s.Holders)
					}
					if name != "multi" && e.Count("renew") > renewals {
						t.Error("it is still renewed")
					}
					start = time.Now()
					wantLost(t, l.Release(context.Background()), holdfast.LostBroken)
					wantErr(t, l.Release(context.Background()), holdfast.ErrLost)
					if waits == "nobody waits" {
						wantEmpty(t, e, b.resource)
						go enter(other)
					}
					r := <-next
					if r.err != nil || r.at.After(start) || r.lease.Err() != nil {
						t.Fatalf("the next entered after %v: %v", r.at.Sub(start), r.err)
					}
					if n := len(h.losses()); n == 0 || n > 2 {
						t.Errorf("the hook was called for %d losses", n)
					}
					mustRelease(t, r.lease)
				})
			})
		}
	}
}

// A broken lease that is never released ends at its deadline, with Force at once, or
// with Close.
func TestUnreleasedBreakEndsAtTheDeadline(t *testing.T) {
	for name, b := range breakables() {
		for _, way := range []string{"deadline", "force", "close"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newFaulty()
					c, other := newClient(t, e), newClient(t, e)
					l, err := b.hold(c)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(1200 * time.Millisecond)
					deadline := l.Deadline()
					var opts []holdfast.BreakOption
					if way == "force" {
						opts = append(opts, holdfast.Force())
					}
					start := time.Now()
					if err := other.Break(context.Background(), b.resource, look(t, e, b.resource).Holders[0].ID, opts...); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					wantLost(t, l.Err(), holdfast.LostBroken)
					switch way {
					case "force":
						wantEmpty(t, e, b.resource)
						wantLost(t, l.Release(context.Background()), holdfast.LostBroken)
					case "close":
						if err := c.Close(); err != nil {
							t.Errorf("Close: %v", err)
						}
					}
					next, err := b.hold(other)
					if err != nil {
						t.Fatal(err)
					}
					took := time.Since(start)
					if way == "deadline" && (time.Now().Before(deadline) || time.Since(deadline) > time.Second) {
						t.Errorf("the next entered %v after the end of the trust window", time.Since(deadline))
					}
					if way != "deadline" && took > 0 {
						t.Errorf("the next entered after %v", took)
					}
					mustRelease(t, next)
					wantErr(t, l.Release(context.Background()), holdfast.ErrLost)
					synctest.Wait()
					wantEmpty(t, e, "x")
				})
			})
		}
	}
}

// A break that is heard twice, by a wake-up and by the answer to a call, is one break: the lease is the holder's
// to release, until its deadline.
func TestBreakIsHeardTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c, other := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.RWMutex("x").Lock, t.Context())
		time.Sleep(1200 * time.Millisecond) // until the client listens
		e.Set(func() {
			e.OnResize = func(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
				if err := e.Engine.Break(ctx, res, engine.Break{ID: h.ID}); err != nil {
					t.Error(err)
				}
				<-l.Context().Done()
				return e.Engine.Resize(ctx, res, h, weight)
			}
		})
		if err := l.Demote(t.Context()); err == nil {
			t.Error("a broken lease was demoted")
		}
		time.Sleep(time.Until(l.Deadline()) - time.Millisecond)
		if s := look(t, e, "x"); len(s.Holders) != 1 || !s.Holders[0].Breaking {
			t.Errorf("before its deadline the store has %+v", s.Holders)
		}
		_, err := other.RWMutex("x").TryLock(t.Context())
		wantErr(t, err, holdfast.ErrNotAcquired)
		wantLost(t, l.Release(t.Context()), holdfast.LostBroken)
		wantEmpty(t, e, "x")
	})
}

// A broken leader steps down: fn returns, and only then another leads. A broken
// run is not marked as done, and another does the work.
func TestBreakUnderWork(t *testing.T) {
	type runner func(ctx context.Context, c *holdfast.Client, fn func(ctx context.Context) error) error
	for name, run := range map[string]runner{
		"do": func(ctx context.Context, c *holdfast.Client, fn func(ctx context.Context) error) error {
			return c.Mutex("x").Do(ctx, fn)
		},
		"re-entered": func(ctx context.Context, c *holdfast.Client, fn func(ctx context.Context) error) error {
			m := c.Mutex("x", holdfast.WithReentrancy())
			return m.Do(ctx, func(ctx context.Context) error { return m.Do(ctx, fn) })
		},
		"lead": func(ctx context.Context, c *holdfast.Client, fn func(ctx context.Context) error) error {
			return c.Election("x").Lead(ctx, "v", fn)
		},
		"once": func(ctx context.Context, c *holdfast.Client, fn func(ctx context.Context) error) error {
			_, err := c.Once(ctx, "x", time.Hour, fn)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c, other := newClient(t, e), newClient(t, e)
				ctx, cancel := context.WithCancel(context.Background())
				var inside, turns atomic.Int32
				fn := func(ctx context.Context) error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d inside", n)
					}
					turns.Add(1)
					select {
					case <-ctx.Done():
						<-time.After(4 * time.Second) // it takes its time to stop
					case <-time.After(8 * time.Second):
					}
					inside.Add(-1)
					return nil
				}
				done := make(chan error, 2)
				go func() { done <- run(ctx, c, fn) }()
				synctest.Wait()
				go func() { done <- run(ctx, other, fn) }()
				time.Sleep(2 * time.Second)
				if err := other.Break(ctx, "x", look(t, e, "x").Holders[0].ID); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				if n := turns.Load(); n != 1 {
					t.Errorf("%d turns while the first is inside", n)
				}
				time.Sleep(2 * time.Second)
				if n := turns.Load(); n != 2 {
					t.Errorf("%d turns; want the second", n)
				}
				time.Sleep(20 * time.Second)
				cancel()
				<-done
				<-done
				synctest.Wait()
				wantEmpty(t, e, "x")
			})
		})
	}
}

// Short leases cost no stream of wake-ups, and a lease that is older than a second
// has one, before its first renewal.
func TestListensForLeasesOlderThanASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x")
		for range 100 {
			l := mustLock(t, m.Lock, context.Background())
			time.Sleep(90 * time.Millisecond)
			mustRelease(t, l)
		}
		if n := e.Count("listen"); n > 0 {
			t.Fatalf("%d streams for short leases", n)
		}
		l := mustLock(t, m.Lock, context.Background())
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if e.Count("listen") != 1 || e.Count("renew") > 0 {
			t.Errorf("%d streams, %d renewals after a second", e.Count("listen"), e.Count("renew"))
		}
		mustRelease(t, l)
	})
}

// The holder gets the reason of a break, at whatever moment it finds out: by a wake-up, by a
// renewal if no stream of wake-ups is open yet, by its release, or when it adopts a ticket.
func TestBreakReason(t *testing.T) {
	ctx := context.Background()
	const reason = "deploy\x1b[2J"
	options := func(opts ...holdfast.LockOption) []holdfast.LockOption { return opts }
	for name, way := range map[string]struct {
		opts  []holdfast.LockOption
		after time.Duration // from the grant to the break
		loss  func(t *testing.T, c *holdfast.Client, l *holdfast.Lease) error
	}{
		"wake-up": {nil, 1200 * time.Millisecond, func(t *testing.T, _ *holdfast.Client, l *holdfast.Lease) error {
			synctest.Wait()
			return l.Err()
		}},
		"renewal": {options(holdfast.WithTTL(2 * time.Second)), 0, func(t *testing.T, _ *holdfast.Client, l *holdfast.Lease) error {
			<-l.Done()
			return context.Cause(l.Context())
		}},
		"release": {nil, 0, func(t *testing.T, _ *holdfast.Client, l *holdfast.Lease) error { return l.Release(ctx) }},
		"detach": {nil, 0, func(t *testing.T, _ *holdfast.Client, l *holdfast.Lease) error {
			_, err := l.Detach(ctx)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c, other := newClient(t, e), newClient(t, e)
				l := mustLock(t, c.Mutex("x", way.opts...).Lock, ctx)
				time.Sleep(way.after)
				if err := other.Break(ctx, "x", look(t, e, "x").Holders[0].ID, holdfast.BreakReason(reason)); err != nil {
					t.Fatal(err)
				}
				err := way.loss(t, c, l)
				wantLost(t, err, holdfast.LostBroken)
				if lost, _ := errors.AsType[*holdfast.LostError](err); lost.Reason != reason {
					t.Errorf("the reason is %q", lost.Reason)
				}
				if text := err.Error(); !strings.HasSuffix(text, `lost: broken, for "deploy\x1b[2J"`) {
					t.Errorf("the error is %s", text)
				}
				_ = l.Release(ctx)
			})
		})
	}
}

// A ticket whose lease was broken meanwhile, and a wait.
func TestBreakReasonOfTicketAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		e := newFaulty()
		c, other := newClient(t, e), listening(t, e)
		ticket, err := mustLock(t, c.Mutex("x").Lock, ctx).Detach(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() {
			_, err := other.Mutex("x").Lock(ctx)
			waited <- err
		}()
		synctest.Wait()
		s := look(t, e, "x")
		for _, id := range []string{s.Holders[0].ID, s.Waiters[0].ID} {
			if err := c.Break(ctx, "x", id, holdfast.BreakReason("a deploy")); err != nil {
				t.Fatal(err)
			}
		}
		err = <-waited
		wantErr(t, err, holdfast.ErrNotAcquired)
		if want := `the wait was broken by an operator, for "a deploy"`; !strings.HasSuffix(err.Error(), want) {
			t.Errorf("the wait ended with %v", err)
		}
		_, err = other.Adopt(ctx, ticket)
		if lost, ok := errors.AsType[*holdfast.LostError](err); !ok || lost.Reason != "a deploy" {
			t.Errorf("adopted: %v", err)
		}
	})
}

func TestBreakOptionIsNil(t *testing.T) {
	c := newClient(t, newFaulty())
	wantErr(t, c.Break(context.Background(), "x", "a.b", nil), holdfast.ErrInvalid)
}

func TestBreakReasonIsChecked(t *testing.T) {
	c := newClient(t, newFaulty())
	for _, reason := range []string{strings.Repeat("x", 257), "\xff"} {
		wantErr(t, c.Break(context.Background(), "x", "a.b", holdfast.BreakReason(reason)), holdfast.ErrInvalid)
	}
	wantErr(t, c.Break(context.Background(), "x", "a.b", holdfast.BreakReason(strings.Repeat("x", 256))), holdfast.ErrNotHeld)
}
