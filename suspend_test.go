package holdfast

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// suspendable is a client of a machine that can be suspended: timers and the monotonic clock stand still, and the wall clock
// and that of the store go on.
type suspendable struct {
	*Client
	gained *atomic.Int64
}

func newSuspendable(t *testing.T) suspendable {
	t.Helper()
	e := &clockedStore{Engine: memory.New()}
	c, err := New(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.keep.Clock = c.keep.Clock.Gaining(&e.gained)
	return suspendable{c, &e.gained}
}

func (s suspendable) suspend(d time.Duration) { s.gained.Add(int64(d)) }

// setClock sets the wall clock of the machine forward, and not that of the store.
func (s suspendable) setClock(d time.Duration) {
	s.gained.Add(int64(d))
	s.engine.(*clockedStore).behind.Add(int64(d))
}

// clockedStore is a store whose clock gains what that of the machine gains, less what that was set forward.
type clockedStore struct {
	engine.Engine
	gained, behind atomic.Int64
}

func (s *clockedStore) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Engine.Now(ctx)
	return now.Add(time.Duration(s.gained.Load() - s.behind.Load())), err
}

// What Deadline returns is compared with now, and so says when the window closes, whichever clock closes it.
func TestDeadlineAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSuspendable(t)
		l, err := c.Mutex("x", WithTTL(time.Hour)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := time.Until(l.Deadline())
		c.suspend(15 * time.Minute)
		if after := time.Until(l.Deadline()); after != before-15*time.Minute {
			t.Errorf("%v are left after a suspend, and before it %v", after, before)
		}
	})
}

// A lease that is not renewed ends at its TTL, also one of several resources, whose parts are renewed, and one without
// the store.
func TestTermOverASuspend(t *testing.T) {
	const ttl = time.Hour
	for name, lock := range map[string]func(context.Context, suspendable) (*Lease, error){
		"multi": func(ctx context.Context, c suspendable) (*Lease, error) {
			return c.Multi([]string{"a", "b"}, WithTTL(ttl), WithoutRenewal()).Lock(ctx)
		},
		"fallback": func(ctx context.Context, c suspendable) (*Lease, error) {
			m := c.Mutex("x", WithTTL(ttl), WithoutRenewal(), WithFallback(FailOpen))
			return newFallbackGrant(&m.acquirer, "id", 1, nil).take(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newSuspendable(t)
				l, err := lock(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				c.suspend(50 * time.Minute)
				resumed := time.Now()
				if left := time.Until(l.Deadline()); left > 5*time.Minute || left < 3*time.Minute {
					t.Errorf("%v are left by Deadline, want 5 minutes less a margin", left)
				}
				<-l.Done()
				if took := time.Since(resumed); took > 5*time.Minute+time.Second {
					t.Errorf("it ended %v after the suspend, want 5 minutes", took)
				}
				if !errors.Is(l.Err(), ErrLost) {
					t.Error(l.Err())
				}
			})
		})
	}
}

// A term that is stopped is not over.
func TestTermThatIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSuspendable(t)
		over := 0
		count := func() { over++ }
		c.newTerm(time.Hour, count)
		c.newTerm(time.Hour, count).stop()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if over != 1 {
			t.Errorf("%d of two terms are over, one of which was stopped", over)
		}
	})
}

// The resources of a Multi of which one was broken are free when that one's time is over.
func TestBrokenMultiOverASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := newSuspendable(t), opened(t)
		other.engine = c.engine
		l, err := c.Multi([]string{"a", "b"}, WithTTL(time.Hour)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Break(t.Context(), "a", l.HolderID()); err != nil {
			t.Fatal(err)
		}
		<-l.Done()
		c.suspend(50 * time.Minute)
		resumed := time.Now()
		b, err := c.Mutex("b").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(resumed); took > 10*time.Minute {
			t.Errorf("the other resource is free %v after the suspend", took)
		}
		_ = b.Release(t.Context())
	})
}

// A slot that begins after a suspend is run within a second of its begin.
func TestServeOverASuspend(t *testing.T) {
	for name, schedule := range map[string]JobOption{"every": Every(time.Hour), "cron": Cron("0,1 * * * *")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newSuspendable(t)
				ctx, cancel := context.WithCancel(t.Context())
				var ran []time.Duration
				began := time.Now()
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = c.Job("j", schedule).Serve(ctx, func(context.Context) error {
						ran = append(ran, time.Since(began)+time.Duration(c.gained.Load()))
						return nil
					})
				}()
				time.Sleep(2 * time.Minute)
				c.suspend(57*time.Minute + 30*time.Second)
				time.Sleep(45 * time.Second)
				cancel()
				<-done
				if i := slices.IndexFunc(ran, func(d time.Duration) bool { return d >= time.Hour }); i < 0 || ran[i] > time.Hour+time.Second {
					t.Errorf("runs at %v, none at an hour", ran)
				}
			})
		})
	}
}

// A node that waits for another's run does not begin one when the slot has ended, though its timers stood still, and waits
// no longer.
func TestRunOverASuspend(t *testing.T) {
	for name, runs := range map[string]time.Duration{"the other fails": 0, "the other goes on": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newSuspendable(t)
				other, err := New(c.engine)
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				begun, ended := make(chan struct{}), make(chan struct{})
				defer func() { <-ended }()
				go func() {
					defer close(ended)
					_, _ = other.Job("j", Every(time.Minute), RetryFailed()).Run(t.Context(), func(context.Context) error {
						close(begun)
						time.Sleep(10 * time.Second)
						c.suspend(5 * time.Minute)
						time.Sleep(runs)
						return errors.New("failed")
					})
				}()
				<-begun
				start := time.Now()
				ran, err := c.Job("j", Every(time.Minute), RetryFailed()).Run(t.Context(), func(context.Context) error { return nil })
				if ran || !errors.Is(err, ErrNotAcquired) {
					t.Errorf("ran a slot after its end: %v, %v", ran, err)
				}
				if took := time.Since(start) - 10*time.Second; took > 2*time.Second {
					t.Errorf("waited for %v after the suspend, in which the slot ended", took)
				}
			})
		})
	}
}

// The store's clock says when a slot has ended, also if that of the node is set forward while it waits or runs.
func TestJobWhileTheClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSuspendable(t)
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		runs := 0
		_ = c.Job("j", Every(time.Hour), RetryFailed()).Serve(ctx, func(context.Context) error {
			if runs++; runs == 1 {
				c.setClock(time.Hour)
				return errors.New("failed")
			}
			return nil
		})
		if runs != 2 {
			t.Errorf("%d runs of a slot whose first run failed, want 2", runs)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newSuspendable(t)
		now, err := c.readClock(t.Context(), "j")
		if err != nil {
			t.Fatal(err)
		}
		job := c.Job("j", Every(time.Hour))
		s, err := job.opts.slot(now.store)
		if err != nil {
			t.Fatal(err)
		}
		c.setClock(3 * time.Hour)
		if ran, err := job.run(t.Context(), now, s, func(context.Context) error { return nil }); !ran || err != nil {
			t.Errorf("the slot was not run: %v, %v", ran, err)
		}
	})
}
