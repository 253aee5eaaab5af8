package holdfast_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// tokens collects the tokens of leases, and their callers, in the order of the leases.
type tokens struct {
	mu  sync.Mutex
	all []uint64
	by  []int
}

func (l *tokens) add(who int, lease *holdfast.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all, l.by = append(l.all, lease.Token()), append(l.by, who)
}

// queue starts n callers, each when the one before waits. They acquire, work and release. They use
// the locks in turns.
func (l *tokens) queue(t *testing.T, n int, work time.Duration, locks ...lockFunc) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			lease, err := locks[i%len(locks)](context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			l.add(i, lease)
			time.Sleep(work)
			mustRelease(t, lease)
		})
		synctest.Wait()
	}
	return &wg
}

func (l *tokens) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// wantIncreasing checks that every token is above the one before.
func (l *tokens) wantIncreasing(t *testing.T) {
	t.Helper()
	for i := 1; i < len(l.all); i++ {
		if l.all[i] <= l.all[i-1] {
			t.Fatalf("token %d after %d", l.all[i], l.all[i-1])
		}
	}
}

func TestOrderInsideAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x")
		first := mustLock(t, m.Lock, context.Background())
		var log tokens
		wg := log.queue(t, 16, 0, m.Lock)
		before := e.Count("acquire")
		mustRelease(t, first)
		wg.Wait()
		if !slices.IsSorted(log.by) || len(log.by) != 16 {
			t.Errorf("served in order %v", log.by)
		}
		log.wantIncreasing(t)
		if n := e.Count("acquire") - before; n != 0 {
			t.Errorf("%d round trips for 16 hand-offs", n)
		}
		wantEmpty(t, e, "x")
	})
}

// After 64 hand-offs the process yields to others. The first grant reserves fewer tokens,
// since no caller was waiting at its request.
func TestSliceOfHandOffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		mine, other := newClient(t, e).Mutex("x"), newClient(t, e).Mutex("x")
		third := newClient(t, e).Mutex("x")
		first := mustLock(t, mine.Lock, context.Background())
		foreign := lockSoon(context.Background(), other.Lock)
		synctest.Wait()
		var log tokens
		log.add(-1, first)
		wg := log.queue(t, 200, 0, mine.Lock)
		mustRelease(t, first)
		r := wantGrant(t, foreign)
		if n := log.len(); n != 17 {
			t.Errorf("%d leases before the other process had its turn; want 1 + 16 hand-offs", n)
		}
		foreign = lockSoon(context.Background(), third.Lock)
		synctest.Wait()
		log.add(1000, r.lease)
		mustRelease(t, r.lease)
		r = wantGrant(t, foreign)
		if n := log.len() - 18; n != 65 {
			t.Errorf("%d leases between two turns of the other process; want 1 + 64 hand-offs", n)
		}
		log.add(1001, r.lease)
		mustRelease(t, r.lease)
		wg.Wait()
		log.wantIncreasing(t)
		if len(log.all) != 203 {
			t.Errorf("%d leases", len(log.all))
		}
		wantEmpty(t, e, "x")
	})
}

// If no other process waits, a process calls the store less and less often: its slices
// have 16, 64, 128 and then 256 hand-offs, and more on a store whose calls take longer.
func TestSlicesOfAProcessThatIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		mine := newClient(t, e).Mutex("x")
		first := mustLock(t, mine.Lock, context.Background())
		var log tokens
		log.add(-1, first)
		wg := log.queue(t, 17+65+129+2*257, 2*time.Microsecond, mine.Lock)
		mustRelease(t, first)
		wg.Wait()
		log.wantIncreasing(t)
		if n := e.Count("acquire"); n != 6 {
			t.Errorf("%d requests for the store, want 6", n)
		}
		wantEmpty(t, e, "x")
	})
}

func TestSlicesOnASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.Slow(2500*time.Microsecond, 2500*time.Microsecond)
		mine := newClient(t, e).Mutex("x")
		first := mustLock(t, mine.Lock, context.Background())
		var log tokens
		log.add(-1, first)
		wg := log.queue(t, 17+65+129+257+513+1025+2049, 2*time.Microsecond, mine.Lock)
		mustRelease(t, first)
		wg.Wait()
		log.wantIncreasing(t)
		if n := e.Count("acquire"); n != 8 {
			t.Errorf("%d requests for the store, want 8", n)
		}
		wantEmpty(t, e, "x")
	})
}

// After 10 ms the process yields, after however few hand-offs.
func TestSliceOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		mine, other := newClient(t, e).Mutex("x"), newClient(t, e).Mutex("x")
		first := mustLock(t, mine.Lock, context.Background())
		foreign := lockSoon(context.Background(), other.Lock)
		synctest.Wait()
		var log tokens
		wg := log.queue(t, 20, 3*time.Millisecond, mine.Lock)
		start := time.Now()
		mustRelease(t, first)
		r := <-foreign
		if waited := r.at.Sub(start); waited > 13*time.Millisecond {
			t.Errorf("the other process waited %v", waited)
		}
		log.add(1001, r.lease)
		mustRelease(t, r.lease)
		wg.Wait()
		log.wantIncreasing(t)
		wantEmpty(t, e, "x")
	})
}

// Several processes with many callers each: tokens are unique and increase in
// the order of the leases, and no two are open at once.
func TestTokensAcrossProcesses(t *testing.T) {
	e := memory.New()
	var log tokens
	var wg sync.WaitGroup
	inside := 0 // guarded by the lock that is tested
	for p := range 4 {
		m := newClient(t, e).Mutex("x")
		for range 4 {
			wg.Go(func() {
				for range 100 {
					l, err := m.Lock(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					if inside++; inside != 1 {
						t.Errorf("%d inside", inside)
					}
					log.add(p, l)
					inside--
					mustRelease(t, l)
				}
			})
		}
	}
	wg.Wait()
	log.wantIncreasing(t)
	if len(log.all) != 1600 {
		t.Errorf("%d leases", len(log.all))
	}
	wantEmpty(t, e, "x")
}

// If the wait of a caller is cancelled at the moment of its grant, the next caller is granted.
func TestTurnOnItsWayToACancelledWaiter(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			e := memory.New()
			m := newClient(t, e).Mutex("x")
			l := mustLock(t, m.Lock, context.Background())
			ctx, cancel := context.WithCancel(context.Background())
			var impatient []<-chan result
			for range 8 {
				impatient = append(impatient, lockSoon(ctx, m.Lock))
			}
			synctest.Wait()
			last := lockSoon(context.Background(), m.Lock)
			synctest.Wait()
			go cancel()
			mustRelease(t, l)
			for _, w := range impatient {
				if r := <-w; r.err == nil {
					mustRelease(t, r.lease)
				} else {
					wantErr(t, r.err, holdfast.ErrNotAcquired, context.Canceled)
				}
			}
			r := wantGrant(t, last)
			mustRelease(t, r.lease)
			synctest.Wait()
			wantEmpty(t, e, "x")
		})
	}
}

// If the wait of the caller in the store's queue is cancelled, the next caller of the process
// takes over its place.
func TestPlaceInTheQueueIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c := newClient(t, e)
		l := mustLock(t, newClient(t, e).Mutex("x").Lock, context.Background())
		ctx, cancel := context.WithCancel(context.Background())
		waiter := lockSoon(ctx, c.Mutex("x").Lock)
		synctest.Wait()
		behind := lockSoon(context.Background(), newClient(t, e).Mutex("x").Lock)
		synctest.Wait()
		next := lockSoon(context.Background(), c.Mutex("x").Lock)
		synctest.Wait()
		place := look(t, e, "x").Waiters[0].ID
		cancel()
		wantErr(t, (<-waiter).err, context.Canceled)
		synctest.Wait()
		if s := look(t, e, "x"); len(s.Waiters) != 2 || s.Waiters[0].ID != place {
			t.Errorf("waiters %+v; want %s in front", s.Waiters, place)
		}
		time.Sleep(10 * time.Second) // it continues to poll
		mustRelease(t, l)
		r := <-next
		if r.err != nil || r.lease.HolderID() != place {
			t.Fatalf("err %v, not in the place of the cancelled waiter", r.err)
		}
		mustRelease(t, r.lease)
		mustRelease(t, (<-behind).lease)
		wantEmpty(t, e, "x")
	})
}

// If a lease is lost between two local turns, or while it is held, the next local caller
// acquires another.
func TestNextLocalCallerAcquiresAfterALoss(t *testing.T) {
	for _, cause := range []string{"broken", "cut off", "expired in the store"} {
		t.Run(cause, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c, operator := newClient(t, e), newClient(t, e)
				m := c.Mutex("x", holdfast.WithTTL(time.Second))
				l := mustLock(t, m.Lock, context.Background())
				var line []<-chan result
				for range 3 {
					line = append(line, lockSoon(context.Background(), m.Lock))
					synctest.Wait()
				}
				switch cause {
				case "broken":
					time.Sleep(400 * time.Millisecond)
					if err := operator.Break(context.Background(), "x", l.HolderID()); err != nil {
						t.Fatal(err)
					}
				case "cut off":
					e.All(down)
					<-l.Done()
					e.All(nil)
				default:
					e.Set(func() {
						e.OnRenew = func(_ context.Context, b []engine.Renewal) []error {
							return slices.Repeat([]error{&engine.NotHeldError{Cause: engine.CauseExpired}}, len(b))
						}
					})
					<-l.Done()
					e.Set(func() { e.OnRenew = nil })
				}
				<-l.Done()
				wantErr(t, l.Err(), holdfast.ErrLost)
				last := l.Token()
				for _, w := range line { // although the first holder has not returned yet
					r := wantGrant(t, w)
					if r.lease.Token() <= last {
						t.Error("tokens do not increase")
					}
					last = r.lease.Token()
					mustRelease(t, r.lease)
				}
				wantErr(t, l.Release(context.Background()), holdfast.ErrLost)
				time.Sleep(time.Second)
				wantEmpty(t, e.Engine, "x")
			})
		})
	}
}

// The store fails while a lease is yielded: the next caller is granted when it is back.
func TestYieldFails(t *testing.T) {
	for name, fault := range map[string]func(context.Context) error{"down": down, "hung": hang, "denied": denied} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				m := newClient(t, e).Mutex("x", holdfast.WithTTL(10*time.Second))
				l := mustLock(t, m.Lock, context.Background())
				next := lockSoon(context.Background(), m.Lock)
				time.Sleep(time.Second) // longer than a slice
				e.All(fault)
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				if err := l.Release(ctx); err == nil {
					t.Error("a release that the store did not confirm succeeded")
				}
				time.Sleep(time.Second)
				e.All(nil)
				r := <-next
				if name == "denied" {
					wantErr(t, r.err, holdfast.ErrDenied)
				} else if r.err != nil {
					t.Fatal(r.err)
				} else {
					mustRelease(t, r.lease)
				}
				time.Sleep(10 * time.Second)
				wantEmpty(t, e.Engine, "x")
			})
		})
	}
}

// Another kind is granted between the release and the new request of a yield. The release is done
// nevertheless.
func TestYieldFindsAnotherKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x")
		l := mustLock(t, m.Lock, context.Background())
		next := lockSoon(context.Background(), m.Lock)
		time.Sleep(time.Second)
		e.once(func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			_ = e.Engine.Release(ctx, engine.Release{Resource: r.Resource, Held: r.Yields})
			return engine.Answer{}, engine.ErrMismatch
		})
		mustRelease(t, l)
		r := wantGrant(t, next)
		mustRelease(t, r.lease)
	})
}

// Without tenure the order between processes is strictly that of arrival.
func TestStrictOrderWithoutTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		var locks []lockFunc
		for range 3 {
			locks = append(locks, newClient(t, e).Mutex("x", holdfast.WithoutTenure()).Lock)
		}
		first := mustLock(t, locks[0], context.Background())
		var log tokens
		wg := log.queue(t, 60, 100*time.Millisecond, locks...)
		mustRelease(t, first)
		wg.Wait()
		if !slices.IsSorted(log.by) || len(log.by) != 60 {
			t.Errorf("served in order %v", log.by)
		}
		log.wantIncreasing(t)
		wantEmpty(t, e, "x")
	})
}

// 64 callers on one resource each get their share, although each locks again at once.
func TestFairShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		least, share, most := shares(t, 64, 10*time.Second)
		if share < 50 || least < share*9/10 || most > share*11/10 {
			t.Errorf("shares between %d and %d; the mean is %d", least, most, share)
		}
	})
}

// shares lets so many callers compete for so long. Each holds for a millisecond.
func shares(t *testing.T, callers int, span time.Duration) (least, mean, most int) {
	m := newClient(t, memory.New()).Mutex("x")
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	turns := make([]int, callers)
	var start, wg sync.WaitGroup
	start.Add(callers)
	for i := range callers {
		wg.Go(func() {
			start.Done()
			start.Wait()
			for ctx.Err() == nil {
				l, err := m.Lock(ctx)
				if err != nil {
					return
				}
				turns[i]++
				<-time.After(time.Millisecond)
				_ = l.Release(context.WithoutCancel(ctx))
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range turns {
		total += n
	}
	return slices.Min(turns), total / callers, slices.Max(turns)
}
