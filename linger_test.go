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

const lingerMax = 500 * time.Millisecond

// lingering returns two clients of an engine, and their handles of a mutex that lingers.
func lingering(t *testing.T) (e *faulty, own, other *holdfast.Mutex, c *holdfast.Client) {
	e = newFaulty()
	c = newClient(t, e)
	own = c.Mutex("stock:42", holdfast.WithLinger(lingerMax))
	other = newClient(t, e).Mutex("stock:42", holdfast.WithLinger(lingerMax))
	return e, own, other, c
}

func pair(t *testing.T, m *holdfast.Mutex) uint64 {
	t.Helper()
	l := mustLock(t, m.Lock, t.Context())
	defer mustRelease(t, l)
	return l.Token()
}

func TestLingerMakesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, c := lingering(t)
		last := uint64(0)
		for range 10 {
			token := pair(t, own)
			if token <= last {
				t.Fatalf("token %d after %d", token, last)
			}
			last = token
			time.Sleep(lingerMax / 2)
		}
		if l, err := own.TryLock(t.Context()); err != nil {
			t.Error("TryLock of the same process:", err)
		} else {
			mustRelease(t, l)
		}
		if n := e.Count("acquire"); n != 1 {
			t.Errorf("%d calls of Acquire for 11 pairs, want 1", n)
		}
		if n := e.Count("release"); n != 0 {
			t.Errorf("%d calls of Release while it lingers", n)
		}
		if s := c.Stats(); s.Lingering != 1 || s.Leases != 1 {
			t.Errorf("stats %+v, want 1 lease that lingers", s)
		}
		time.Sleep(lingerMax + time.Millisecond)
		wantEmpty(t, e, "stock:42")
		if s := c.Stats(); s.Lingering != 0 || s.Leases != 0 {
			t.Errorf("stats %+v after the linger", s)
		}
	})
}

// A lone caller makes a call each third of the TTL, and when its tokens are used up, which it
// does ever more rarely.
func TestLingerCallsRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, _ := lingering(t)
		last, start := uint64(0), time.Now()
		for range 30_000 {
			token := pair(t, own)
			if token <= last {
				t.Fatalf("token %d after %d", token, last)
			}
			last = token
			time.Sleep(time.Millisecond)
		}
		thirds := int(time.Since(start)/(holdfast.DefaultTTL/3)) + 1
		if n := e.Count("acquire"); n > thirds+130 {
			t.Errorf("%d calls of Acquire in %v", n, time.Since(start))
		}
	})
}

func TestRecallGrantsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, own, other, _ := lingering(t)
		first := pair(t, own)
		start := time.Now()
		l := mustLock(t, other.Lock, t.Context())
		if d := time.Since(start); d > 0 {
			t.Errorf("granted after %v", d)
		}
		if l.Token() <= first {
			t.Errorf("token %d after %d", l.Token(), first)
		}
		mustRelease(t, l)
	})
}

// The lease is in use when it is recalled: it goes back with its release, and a local caller who
// comes later waits behind the other process.
func TestRecallOfALeaseInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, other, _ := lingering(t)
		pair(t, own)
		l := mustLock(t, own.Lock, t.Context())
		got := lockSoon(t.Context(), other.Lock)
		time.Sleep(time.Millisecond)
		wantWaiting(t, got, "the lease is in use")
		mustRelease(t, l)
		start := time.Now()
		foreign := wantGrant(t, got)
		if d := time.Since(start); d > 0 {
			t.Errorf("granted %v after the release", d)
		}
		again := lockSoon(t.Context(), own.Lock)
		time.Sleep(time.Millisecond)
		wantWaiting(t, again, "another process has it")
		mustRelease(t, foreign.lease)
		mustRelease(t, wantGrant(t, again).lease)
		time.Sleep(time.Millisecond)
		wantEmpty(t, e, "stock:42")
	})
}

// After a recall the resource is not kept for 30 s, then for a minute, until ten.
func TestRecallTurnsLingerOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, _ := lingering(t)
		plain := newClient(t, e).Mutex("stock:42")
		keeps := func() bool {
			pair(t, own)
			return len(look(t, e, "stock:42").Holders) == 1
		}
		for _, off := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
			if !keeps() {
				t.Fatalf("it is not kept before %v", off)
			}
			pair(t, plain) // recalls it
			for range 9 {
				if keeps() {
					t.Fatalf("it is kept within %v of a recall", off)
				}
				time.Sleep(off / 10)
			}
			time.Sleep(off / 10)
		}
		time.Sleep(21 * time.Minute) // it is forgotten
		if !keeps() {
			t.Fatal("it is not kept after a long time")
		}
		pair(t, plain)
		time.Sleep(31 * time.Second)
		if !keeps() {
			t.Error("the first recall after a long time counts for more than 30 s")
		}
	})
}

func TestTryLockRecalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, own, other, c := lingering(t)
		pair(t, own)
		start := time.Now()
		l := mustLock(t, other.TryLock, t.Context())
		if d := time.Since(start); d > time.Millisecond {
			t.Errorf("TryLock took %v", d)
		}
		mustRelease(t, l)
		time.Sleep(time.Minute) // linger is on again
		held := mustLock(t, own.Lock, t.Context())
		start = time.Now()
		mustNotLock(t, other.TryLock, t.Context(), holdfast.ErrNotAcquired)
		if d := time.Since(start); d != 50*time.Millisecond {
			t.Errorf("TryLock of a lease in use took %v, want 50 ms", d)
		}
		start = time.Now()
		mustNotLock(t, own.TryLock, t.Context(), holdfast.ErrNotAcquired)
		mustNotLock(t, c.Mutex("stock:42", holdfast.WithTTL(time.Minute)).TryLock, t.Context(), holdfast.ErrNotAcquired)
		if d := time.Since(start); d != 0 {
			t.Errorf("TryLock of a lease that its own process uses took %v", d)
		}
		mustRelease(t, held)
	})
}

// A recall that is lost costs no more than the linger, and, while the process uses the lease again
// and again, no more than a third of the TTL.
// A TryLock of the process whose lease is being released, since its linger is over, waits for that.
func TestTryLockWhenTheLingerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, _ := lingering(t)
		pair(t, own)
		e.Set(func() {
			e.OnRelease = func(ctx context.Context, r engine.Release) error {
				time.Sleep(10 * time.Millisecond)
				return e.Engine.Release(ctx, r)
			}
		})
		time.Sleep(lingerMax + time.Millisecond) // the release is under way
		l, err := own.TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l)
	})
}

func TestLostRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, other, _ := lingering(t)
		e.Set(func() { e.OnWake = func(w engine.Wakeup) bool { return w.Kind != engine.WakeWanted } })
		pair(t, own)
		start := time.Now()
		l := mustLock(t, other.Lock, t.Context())
		if d := time.Since(start); d > lingerMax {
			t.Errorf("granted after %v, want %v at most", d, lingerMax)
		}
		mustRelease(t, l)

		ctx, stop := context.WithCancel(t.Context())
		busy := make(chan struct{})
		go func() {
			defer close(busy)
			for ctx.Err() == nil {
				pair(t, own)
				time.Sleep(time.Millisecond)
			}
		}()
		time.Sleep(100 * time.Millisecond)
		start = time.Now()
		l = mustLock(t, other.Lock, t.Context())
		if d := time.Since(start); d > holdfast.DefaultTTL/3+10*time.Millisecond {
			t.Errorf("granted after %v, want a third of the TTL at most", d)
		}
		mustRelease(t, l)
		stop()
		<-busy
	})
}

// A Resync counts as a recall that may have been lost, but not against the resource.
func TestResyncEndsLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, _ := lingering(t)
		pair(t, own)
		var deliver func(engine.Wakeup)
		e.Set(func() { deliver = e.Deliver })
		deliver(engine.Wakeup{Kind: engine.Resync})
		time.Sleep(time.Millisecond)
		wantEmpty(t, e, "stock:42")
		pair(t, own)
		if len(look(t, e, "stock:42").Holders) != 1 {
			t.Error("it is not kept after a Resync")
		}
	})
}

func TestCloseWhileItLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, c := lingering(t)
		pair(t, own)
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("Close took %v", d)
		}
		wantEmpty(t, e, "stock:42")
		mustNotLock(t, own.Lock, t.Context(), holdfast.ErrClosed)
	})
}

// The linger is over, or another process recalls the lease, while Close runs: it does not return before the lease is released.
func TestCloseWhenTheLingerEnds(t *testing.T) {
	for _, recalled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newFaulty()
			other := newClient(t, e).Mutex("stock:42")
			for n := range 1000 {
				c := newClient(t, e)
				pair(t, c.Mutex("stock:42", holdfast.WithLinger(lingerMax)))
				if recalled {
					go func() {
						if l, err := other.TryLock(t.Context()); err == nil {
							_ = l.Release(t.Context())
						}
					}()
				} else {
					time.Sleep(lingerMax)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				for _, h := range look(t, e, "stock:42").Holders {
					if strings.HasSuffix(h.ID, engine.RecallSuffix) {
						t.Fatalf("run %d, recalled %v: Close has left %s", n, recalled, h.ID)
					}
				}
				synctest.Wait()
			}
		})
	}
}

func TestBreakWhileItLingers(t *testing.T) {
	for _, force := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e, own, other, c := lingering(t)
			pair(t, own)
			var opts []holdfast.BreakOption
			if force {
				opts = append(opts, holdfast.Force())
			}
			if err := c.Break(t.Context(), "stock:42", look(t, e, "stock:42").Holders[0].ID, opts...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			wantEmpty(t, e, "stock:42")
			pair(t, own)
			pair(t, other)
		})
	}
}

// The store goes away while it lingers: the grant is not kept any more, and the next caller gets
// an error or waits, as without linger.
func TestStoreGoesAwayWhileItLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, c := lingering(t)
		pair(t, own)
		e.All(down)
		time.Sleep(lingerMax + time.Millisecond)
		if s := c.Stats(); s.Lingering != 0 {
			t.Errorf("stats %+v", s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mustNotLock(t, own.Lock, ctx, holdfast.ErrUnavailable, holdfast.ErrNotAcquired)
		e.All(nil)
		time.Sleep(time.Second)
		pair(t, own)
	})
}

// The process is suspended while it lingers: the caller after that gets a new lease.
func TestNoCallerGetsALeaseThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("stock:42", holdfast.WithTTL(300*time.Millisecond), holdfast.WithLinger(100*time.Millisecond))
		l := mustLock(t, m.Lock, t.Context())
		e.All(down) // no renewal succeeds
		time.Sleep(90 * time.Millisecond)
		mustRelease(t, l)
		time.Sleep(99 * time.Millisecond)
		e.All(nil)
		l2 := mustLock(t, m.Lock, t.Context())
		if e.Count("acquire") < 2 {
			t.Error("a lease whose renewal is overdue was kept")
		}
		if l2.Token() <= l.Token() {
			t.Errorf("token %d after %d", l2.Token(), l.Token())
		}
		mustRelease(t, l2)
	})
}

func TestLingerIsOffWithOtherOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		for name, opt := range map[string]holdfast.LockOption{
			"fallback": holdfast.WithFallback(holdfast.FailOpen), "no renewal": holdfast.WithoutRenewal(), "no tenure": holdfast.WithoutTenure(),
		} {
			m := c.Mutex(name, opt, holdfast.WithLinger(lingerMax))
			pair(t, m)
			wantEmpty(t, e, name)
		}
	})
}

// An engine that does not recall: nothing is kept, and a TryLock elsewhere does not wait.
func TestLingerNeedsRecalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, struct{ engine.Engine }{e})
		m := c.Mutex("stock:42", holdfast.WithLinger(lingerMax))
		pair(t, m)
		wantEmpty(t, e, "stock:42")
	})
}

func TestLingerOptions(t *testing.T) {
	c := newClient(t, newFaulty())
	for name, lock := range map[string]lockFunc{
		"negative":           c.Mutex("a", holdfast.WithLinger(-1)).Lock,
		"above 1 s":          c.Mutex("a", holdfast.WithLinger(time.Second+1)).Lock,
		"above TTL/3":        c.Mutex("a", holdfast.WithLinger(101*time.Millisecond), holdfast.WithTTL(300*time.Millisecond)).Lock,
		"above TTL/3, later": c.Mutex("a", holdfast.WithTTL(300*time.Millisecond), holdfast.WithLinger(101*time.Millisecond)).Lock,
		"semaphore":          units(c.Semaphore("a", 3, holdfast.WithLinger(lingerMax)), 1),
		"election": func(ctx context.Context) (*holdfast.Lease, error) {
			return c.Election("a", holdfast.WithLinger(lingerMax)).Campaign(ctx, "")
		},
		"multi": c.Multi([]string{"a", "b"}, holdfast.WithLinger(lingerMax)).Lock,
	} {
		if _, err := lock(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

// Processes and local callers, who use what lingers, on few resources: never two at once.
func TestLingerUnderContention(t *testing.T) {
	e := newFaulty()
	var inside, turns atomic.Int64
	var last atomic.Uint64
	done := make(chan struct{})
	time.AfterFunc(2*time.Second, func() { close(done) })
	work := make(chan struct{})
	const clients, callers = 3, 3
	for range clients {
		c := newClient(t, e)
		for i := range callers {
			go func() {
				defer func() { work <- struct{}{} }()
				m := c.Mutex("stock:42", holdfast.WithLinger(lingerMax))
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
					}
					lock := m.Lock
					if (n+i)%3 == 0 {
						lock = m.TryLock
					}
					l, err := lock(context.Background())
					if errors.Is(err, holdfast.ErrNotAcquired) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) != 1 {
						t.Error("two at once")
					}
					if before := last.Swap(l.Token()); before >= l.Token() {
						t.Errorf("token %d after %d", l.Token(), before)
					}
					turns.Add(1)
					inside.Add(-1)
					mustRelease(t, l)
				}
			}()
		}
	}
	for range clients * callers {
		<-work
	}
	t.Logf("%d turns", turns.Load())
}
