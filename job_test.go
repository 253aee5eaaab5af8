package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// ahead is a store whose clock differs from that of the nodes, and which returns its time
// slowly to some of them.
type ahead struct {
	*faulty
	by   time.Duration
	slow time.Duration // how long an answer takes at most
	down *atomic.Int32 // how many more questions stay without answer; nil: none
}

func (a ahead) Now(ctx context.Context) (time.Time, error) {
	if a.down != nil && a.down.Add(-1) >= 0 {
		return time.Time{}, down(ctx)
	}
	now, err := a.faulty.Now(ctx)
	if a.slow > 0 {
		select {
		case <-time.After(rand.N(a.slow)):
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
		}
	}
	return now.Add(a.by), err
}

func runJob(ctx context.Context, j *holdfast.Job, fn func(context.Context) error) <-chan turnOut {
	got := make(chan turnOut, 1)
	go func() {
		ran, err := j.Run(ctx, fn)
		got <- turnOut{ran, err}
	}()
	return got
}

// In a bubble of synctest the clock begins at midnight UTC.
func TestJobRunsOnceASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		job := func() *holdfast.Job {
			return newClient(t, e).Job("report", holdfast.Every(time.Hour), holdfast.Slack(0))
		}
		a, b := job(), job()
		for range 3 {
			wantTurn(t, <-runJob(ctx, a, func(ctx context.Context) error {
				wantTurn(t, <-runJob(context.Background(), b, never(t)), false) // it is being done
				return nil
			}), true)
			wantTurn(t, <-runJob(ctx, b, never(t)), false)
			time.Sleep(time.Hour - time.Nanosecond)
			wantTurn(t, <-runJob(ctx, b, never(t)), false)
			time.Sleep(time.Nanosecond)
		}
		wantTurn(t, <-runJob(ctx, b, func(context.Context) error { return errFailed }), true, errFailed)
		wantTurn(t, <-runJob(ctx, a, never(t)), false) // it was tried
	})
}

func TestJobRetryFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		job := func() *holdfast.Job {
			return newClient(t, e).Job("report", holdfast.Cron("0 * * * *"), holdfast.RetryFailed(), holdfast.WithTTL(time.Second))
		}
		first := runJob(ctx, job(), func(context.Context) error {
			time.Sleep(time.Minute)
			return errFailed
		})
		synctest.Wait()
		second, third := runJob(ctx, job(), fine), runJob(ctx, job(), fine)
		wantTurn(t, <-first, true, errFailed)
		if a, b := <-second, <-third; a.ran == b.ran || a.err != nil || b.err != nil {
			t.Errorf("got %+v and %+v, want one of them to run", a, b)
		}
		wantTurn(t, <-runJob(ctx, job(), never(t)), false)

		// A run continues after the end of its slot; a wait for it ends with the slot.
		time.Sleep(118*time.Minute + 59*time.Second)
		long := runJob(ctx, job(), func(ctx context.Context) error {
			time.Sleep(2 * time.Hour)
			return ctx.Err()
		})
		time.Sleep(time.Second)
		synctest.Wait()
		wantTurn(t, <-long, true)
	})
}

func TestJobWaitEndsWithTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		job := func() *holdfast.Job {
			return newClient(t, e).Job("report", holdfast.Every(time.Minute), holdfast.RetryFailed())
		}
		long := runJob(ctx, job(), func(ctx context.Context) error {
			time.Sleep(10 * time.Minute)
			return ctx.Err()
		})
		synctest.Wait()
		start := time.Now()
		wantTurn(t, <-runJob(ctx, job(), never(t)), false, holdfast.ErrNotAcquired)
		if d := time.Since(start); d > time.Minute+time.Second || d < time.Minute-time.Second {
			t.Errorf("it waited for %v", d)
		}
		wantTurn(t, <-runJob(ctx, job(), fine), true) // the next slot
		wantTurn(t, <-long, true)
	})
}

// A node whose clock is ahead starts its daily run a moment early: that is the run
// of the slot that is about to begin, and there is no other.
func TestJobSlack(t *testing.T) {
	for _, tc := range []struct {
		schedule holdfast.JobOption
		slack    time.Duration // -1: the default
		early    time.Duration
		next     bool
	}{
		{holdfast.Cron("0 0 * * *"), -1, 130 * time.Millisecond, true},
		{holdfast.Cron("0 0 * * *"), -1, 10 * time.Second, true},
		{holdfast.Cron("0 0 * * *"), -1, 10*time.Second + 1, false},
		{holdfast.Cron("0 0 * * *"), 0, 1, false},
		{holdfast.Cron("0 0 * * *"), time.Minute, time.Minute, true},
		{holdfast.Every(time.Second), -1, 100 * time.Millisecond, true},
		{holdfast.Every(time.Second), -1, 101 * time.Millisecond, false},
		{holdfast.Every(time.Second), time.Hour, 500 * time.Millisecond, true},
		{holdfast.Every(time.Second), time.Hour, 501 * time.Millisecond, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			opts := []holdfast.JobOption{tc.schedule}
			if tc.slack >= 0 {
				opts = append(opts, holdfast.Slack(tc.slack))
			}
			e, ctx := memory.New(), context.Background()
			j := newClient(t, e).Job("report", opts...)
			wantTurn(t, <-runJob(ctx, j, fine), true)
			midnight := time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
			time.Sleep(time.Until(midnight.Add(-2 * time.Second * 60)))
			_, _ = j.Run(ctx, fine) // of the slot that is ending soon
			time.Sleep(time.Until(midnight.Add(-tc.early)))
			_, _ = j.Run(ctx, fine)
			want := "report@" + midnight.UTC().Format(time.RFC3339)
			name, err := j.Resource(ctx)
			if err != nil || (name == want) != tc.next {
				t.Errorf("%+v: resource %s, %v; the next is %s", tc, name, err, want)
			}
			time.Sleep(time.Until(midnight))
			wantTurn(t, <-runJob(ctx, j, fine), !tc.next)
		})
	}
}

// The mark of a run that begins early lasts as long as its slot, however long the slot
// before was.
func TestJobSlackIsShorterThanTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		j := newClient(t, memory.New()).Job("report", holdfast.Cron("0 0,1 * * *"), holdfast.Slack(2*time.Hour))
		midnight := time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
		time.Sleep(time.Until(midnight.Add(-2*time.Hour + time.Second)))
		wantTurn(t, <-runJob(ctx, j, fine), true) // of the slot that ends
		time.Sleep(time.Until(midnight.Add(-30 * time.Minute)))
		wantTurn(t, <-runJob(ctx, j, fine), true) // early
		for _, later := range []time.Duration{time.Second, 59*time.Minute + 59*time.Second} {
			name, err := j.Resource(ctx)
			time.Sleep(time.Until(midnight.Add(later)))
			if late, again := j.Resource(ctx); err != nil || again != nil || late != name {
				continue // the next slot has begun, with slack
			}
			wantTurn(t, <-runJob(ctx, j, never(t)), false)
		}
	})
}

// Close ends Serve at once, also if its ctx never ends.
func TestServeEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New())
		served := make(chan error, 1)
		go func() { served <- c.Job("report", holdfast.Every(24*time.Hour)).Serve(context.Background(), fine) }()
		time.Sleep(time.Minute)
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, holdfast.ErrClosed) || time.Since(start) > time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// Close ends the retries of a mark that the store does not confirm, also if the ctx of Run never ends.
func TestRunThatCannotBeMarkedEndsWithTheClient(t *testing.T) {
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprintf("a ctx that ends: %v", ends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, ctx := newFaulty(), context.Background()
				if ends {
					ctx = t.Context()
				}
				c := newClient(t, e)
				got := runJob(ctx, c.Job("report", holdfast.AtLeast(time.Hour), holdfast.RetryFailed(), holdfast.WithTTL(time.Hour)), func(context.Context) error {
					e.All(down)
					return nil
				})
				time.Sleep(time.Minute)
				if err := c.Close(); !errors.Is(err, holdfast.ErrUnavailable) {
					t.Errorf("Close: %v", err)
				}
				synctest.Wait()
				if len(got) == 0 {
					t.Error("Run goes on after Close")
				}
				wantTurn(t, <-got, true, holdfast.ErrUnavailable)
			})
		})
	}
}

// The slot is by the store's clock, whatever the clock here says.
func TestJobByTheStoresClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ahead{newFaulty(), 1000*time.Hour + 59*time.Minute, 0, nil}
		j := newClient(t, e).Job("report", holdfast.Every(time.Hour))
		start := time.Now().UTC()
		slot := start.Add(e.by).Truncate(time.Hour)
		wantTurn(t, <-runJob(context.Background(), j, func(context.Context) error {
			if len(look(t, e, "report@"+slot.Format(time.RFC3339)).Holders) != 1 {
				t.Errorf("it runs another slot than %v", slot)
			}
			return nil
		}), true)
		ctx, cancel := context.WithCancel(context.Background())
		var at time.Time
		err := j.Serve(ctx, func(context.Context) error {
			at = time.Now().UTC()
			cancel()
			return nil
		})
		wantErr(t, err, context.Canceled)
		if got, want := at.Add(e.by), slot.Add(time.Hour); got.Before(want) || got.After(want.Add(time.Second)) {
			t.Errorf("served at %v by the store's clock, want %v", got, want)
		}
	})
}

// While the store does not return its time, a job waits for it.
func TestJobWaitsForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := ahead{newFaulty(), 0, 0, new(atomic.Int32)}
		j := newClient(t, e).Job("report", holdfast.Every(time.Hour))
		e.down.Store(20)
		wait, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		wantTurn(t, <-runJob(wait, j, never(t)), false, holdfast.ErrNotAcquired, context.DeadlineExceeded, holdfast.ErrUnavailable)
		wantTurn(t, <-runJob(context.Background(), j, fine), true)
	})
}

// A node that was stopped between reading the clock and being granted does not run
// a slot whose mark may have ended.
func TestJobAfterALongPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		j := newClient(t, net).Job("report", holdfast.Every(time.Minute))
		wantTurn(t, <-runJob(ctx, newClient(t, net.Engine).Job("report", holdfast.Every(time.Minute)), fine), true)
		net.Set(func() {
			net.OnAcquire = func(_ context.Context, r engine.Request) (engine.Answer, error) {
				time.Sleep(time.Hour)
				return net.Engine.Acquire(context.Background(), r)
			}
		})
		r := <-runJob(ctx, j, never(t))
		wantTurn(t, r, false, holdfast.ErrNotAcquired)
		synctest.Wait()
	})
}

// slotLog counts the runs by slot: those that began, and those that succeeded,
// which is that fn returned nil and the store has confirmed the release.
type slotLog struct {
	mu          sync.Mutex
	began, done map[string]int
	fine        map[uint64]bool // tokens of the runs whose fn returned nil
}

func (s *slotLog) begin(l *holdfast.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range l.Tokens() {
		s.began[name]++
	}
}

func (s *slotLog) finish(l *holdfast.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fine[l.Token()] = true
}

// Release is the hook.
func (s *slotLog) Release(e holdfast.ReleaseEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Err == nil && e.HandOff != holdfast.HandOffClose && s.fine[e.Token] {
		s.done[e.Resource]++
	}
}

// cluster serves one job on six nodes whose starts are spread, whose clients are
// cut off now and then and die and come back, and whose work fails now and then.
func cluster(t *testing.T, store *memory.Engine, log *slotLog, length time.Duration, opts ...holdfast.JobOption) {
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			pass(ctx, time.Duration(n)*1700*time.Millisecond)
			for ctx.Err() == nil {
				net := newFaulty()
				net.Engine = store
				node(ctx, t, net, time.Duration(n)*300*time.Millisecond, log, opts)
				pass(ctx, rand.N(20*time.Second))
			}
		})
	}
	wg.Wait()
}

// pass lets a time go by, or the end of ctx come.
func pass(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// node is one life of a node.
func node(ctx context.Context, t *testing.T, net *faulty, slow time.Duration, log *slotLog, opts []holdfast.JobOption) {
	c, err := holdfast.New(ahead{net, 3*time.Hour + 7*time.Second, slow, nil}, holdfast.WithHooks(log))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	life, end := context.WithTimeout(ctx, time.Minute+rand.N(5*time.Minute))
	// Within its life the network fails for a while, which is death to what runs
	// then if it lasts for a TTL.
	var weather sync.WaitGroup
	defer weather.Wait()
	defer end()
	weather.Go(func() {
		pass(life, rand.N(3*time.Minute))
		net.All(down)
		pass(life, rand.N(30*time.Second))
		net.All(nil)
	})
	err = c.Job("report", opts...).Serve(life, func(ctx context.Context) error {
		l := holdfast.LeaseFromContext(ctx)
		log.begin(l)
		switch rand.N(10) {
		case 0, 1:
			return errFailed
		case 2: // it is as good as dead to the store
			net.All(down)
			<-ctx.Done()
			end()
			return ctx.Err()
		case 3: // a run that ends at once, as a short job does
		default:
			pass(context.Background(), rand.N(4*time.Second))
		}
		log.finish(l)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "context") {
		t.Errorf("Serve: %v", err)
	}
}

// 100 slots, six nodes, and no slot succeeds twice; without RetryFailed none even
// begins twice.
func TestJobOnceASlotUnderFaults(t *testing.T) {
	for _, tc := range []struct {
		name  string
		opts  []holdfast.JobOption
		began int // at most, in a slot
		done  int // slots at least
	}{
		{"tried once", nil, 1, 50},
		{"retried", []holdfast.JobOption{holdfast.RetryFailed()}, 100, 85},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := &slotLog{began: map[string]int{}, done: map[string]int{}, fine: map[uint64]bool{}}
			synctest.Test(t, func(t *testing.T) {
				opts := append(tc.opts, holdfast.Every(10*time.Second), holdfast.WithTTL(2*time.Second))
				cluster(t, memory.New(), log, 101*10*time.Second, opts...)
			})
			runs := 0
			for slot, n := range log.began {
				runs += n
				if n > tc.began {
					t.Errorf("%s began %d times", slot, n)
				}
			}
			for slot, n := range log.done {
				if n > 1 {
					t.Errorf("%s succeeded %d times", slot, n)
				}
			}
			t.Logf("%d slots began, in %d runs; %d succeeded", len(log.began), runs, len(log.done))
			if len(log.began) < 95 || len(log.done) < tc.done {
				t.Errorf("%d slots began and %d succeeded, want %d and %d at least", len(log.began), len(log.done), 95, tc.done)
			}
		})
	}
}

// Serve goes on after an error, leaves out slots that passed, and does not run the
// slot in which it begins.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New())
		time.Sleep(30 * time.Second)
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		var at []string
		err := c.Job("report", holdfast.Every(time.Minute)).Serve(ctx, func(context.Context) error {
			at = append(at, time.Since(start).Round(time.Second).String())
			if len(at) == 3 {
				time.Sleep(150 * time.Second)
			}
			return errFailed
		})
		wantErr(t, err, context.DeadlineExceeded)
		// The run of 2m30s ends at 5m0s, within the slot of 4m30s.
		if got, want := strings.Join(at, " "), "30s 1m30s 2m30s 5m0s 5m30s 6m30s 7m30s 8m30s 9m30s"; got != want {
			t.Errorf("ran at %s, want %s", got, want)
		}
	})
}

// A node alone tries a failed slot again itself, after pauses that grow.
func TestServeRetriesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New())
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		tries := 0
		var first time.Time
		err := c.Job("report", holdfast.Every(time.Hour), holdfast.RetryFailed()).Serve(ctx, func(context.Context) error {
			if tries++; tries == 1 {
				first = time.Now()
			}
			if tries == 5 {
				cancel()
				return nil
			}
			return errFailed
		})
		wantErr(t, err, context.Canceled)
		if d := time.Since(first).Round(time.Second); d != 15*time.Second {
			t.Errorf("the fifth try came after %v, want 1+2+4+8 s", d)
		}
	})
}

func TestJobErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, ctx := newFaulty(), context.Background()
		c := newClient(t, net)
		hourly := holdfast.Every(time.Hour)
		long := strings.Repeat("x", holdfast.MaxNameLen)
		for name, j := range map[string]*holdfast.Job{
			"no period":       c.Job("x", holdfast.RetryFailed()),
			"two":             c.Job("x", hourly, holdfast.Cron("0 * * * *")),
			"period too long": c.Job("x", holdfast.Every(holdfast.MaxPeriod+1)),
			"period zero":     c.Job("x", holdfast.Every(0)),
			"cron":            c.Job("x", holdfast.Cron("0 0 0 * * *")),
			"at least":        c.Job("x", hourly, holdfast.AtLeast(-1)),
			"ttl":             c.Job("x", hourly, holdfast.WithTTL(1)),
			"nil":             c.Job("x", hourly, nil),
			"nil lock option": c.Job("x", hourly, holdfast.LockOption(nil)),
			"fallback":        c.Job("x", hourly, holdfast.WithFallback(holdfast.FailOpen)),
			"empty name":      c.Job("", hourly),
			"long name":       c.Job(long, hourly),
		} {
			_, err := j.Run(ctx, never(t))
			if served := j.Serve(ctx, never(t)); err == nil || served == nil {
				t.Errorf("%s: no error", name)
				continue
			}
			wantErr(t, err, holdfast.ErrInvalid)
		}
		single := c.Job("x", holdfast.AtLeast(time.Hour))
		wantErr(t, single.Serve(ctx, never(t)), holdfast.ErrInvalid)
		wantTurn(t, <-runJob(ctx, single, func(context.Context) error { return errFailed }), true, errFailed)
		wantTurn(t, <-runJob(ctx, single, never(t)), false)

		own := c.Job("own", hourly, holdfast.RetryFailed(), holdfast.WithReentrancy())
		wantTurn(t, <-runJob(ctx, own, func(ctx context.Context) error {
			wantTurn(t, <-runJob(ctx, own, never(t)), false, holdfast.ErrDeadlock)
			return nil
		}), true)

		j := c.Job("j", hourly)
		lock := mustLock(t, c.Mutex("j@2000-01-01T00:00:00Z").Lock, ctx)
		wantTurn(t, <-runJob(ctx, j, never(t)), false, holdfast.ErrMismatch)
		mustRelease(t, lock)
		net.All(denied)
		wantTurn(t, <-runJob(ctx, j, never(t)), false, holdfast.ErrDenied)
		net.All(nil)
		gone, cancel := context.WithCancel(ctx)
		cancel()
		wantErr(t, j.Serve(gone, never(t)), context.Canceled)
		wantTurn(t, <-runJob(gone, j, never(t)), false, holdfast.ErrNotAcquired, context.Canceled)
		served := make(chan error, 1)
		go func() { served <- j.Serve(ctx, never(t)) }()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, <-served, holdfast.ErrClosed)
	})
}

// Whatever error the function returns, also one of Holdfast, is that of this slot.
func TestServeContinuesAfterAnyErrorOfTheFunction(t *testing.T) {
	for _, failure := range []error{errFailed, holdfast.ErrDenied, holdfast.ErrMismatch, holdfast.ErrInvalid, holdfast.ErrClosed} {
		t.Run(failure.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute+time.Second)
				defer cancel()
				runs := 0
				err := newClient(t, memory.New()).Job("report", holdfast.Every(time.Minute)).Serve(ctx, func(context.Context) error {
					runs++
					return failure
				})
				wantErr(t, err, context.DeadlineExceeded)
				if runs != 3 {
					t.Errorf("%d runs in three minutes", runs)
				}
			})
		})
	}
}

// A grant that comes after the end of the slot is not used and is released at once.
func TestJobGrantedAfterItsSlotDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFaulty()
		j := newClient(t, net).Job("report", holdfast.Every(time.Minute), holdfast.WithTTL(time.Hour), holdfast.RetryFailed())
		name, err := j.Resource(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		net.Set(func() {
			net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				a, err := net.Engine.Acquire(ctx, r)
				time.Sleep(2 * time.Minute) // the mark of an earlier run would last longer
				return a, err
			}
		})
		wantTurn(t, <-runJob(context.Background(), j, never(t)), false, holdfast.ErrNotAcquired)
		wantEmpty(t, net.Engine, name)
	})
}
