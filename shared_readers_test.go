package holdfast_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// reading returns an engine, the handle of a process whose subscription is live, and that of another process.
func reading(t *testing.T, opts ...holdfast.Option) (e *faulty, own, other *holdfast.RWMutex, c *holdfast.Client) {
	e = newFaulty()
	c = newClient(t, e, opts...)
	subscribe(t, c)
	return e, c.RWMutex("x"), newClient(t, e).RWMutex("x"), c
}

// subscribe opens the subscription of a client, as its second reader at a time does.
func subscribe(t *testing.T, c *holdfast.Client) {
	t.Helper()
	rw := c.RWMutex("warm")
	first := mustLock(t, rw.RLock, t.Context())
	time.Sleep(2 * time.Millisecond)
	second := mustLock(t, rw.RLock, t.Context())
	synctest.Wait()
	if s := c.Stats().Subscription; s != holdfast.SubscriptionLive {
		t.Fatalf("the subscription is %q", s)
	}
	mustRelease(t, first)
	mustRelease(t, second)
}

// calls runs f and checks how many requests it makes.
func calls(t *testing.T, e *faulty, op string, want int, f func()) {
	t.Helper()
	before := e.Count(op)
	f()
	if n := e.Count(op) - before; n != want {
		t.Errorf("%d calls of %s, want %d", n, op, want)
	}
}

func TestSecondReaderMakesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, other, c := reading(t)
		first := mustLock(t, own.RLock, t.Context())
		calls(t, e, "acquire", 0, func() {
			calls(t, e, "release", 0, func() {
				for range 20 {
					time.Sleep(10 * time.Millisecond)
					l := mustLock(t, own.RLock, t.Context())
					try := mustLock(t, c.RWMutex("x").TryRLock, t.Context())
					if l.HolderID() != first.HolderID() || l.Token() != first.Token() || try.Token() != l.Token() {
						t.Errorf("%s with token %d, want the lease %s with %d", l.HolderID(), l.Token(), first.HolderID(), first.Token())
					}
					mustRelease(t, l)
					mustRelease(t, try)
				}
			})
		})
		if s := look(t, e, "x"); len(s.Holders) != 1 {
			t.Errorf("holders %+v, want 1", s.Holders)
		}
		if s, err := c.Snapshot(t.Context(), "x"); err != nil || s.Holders[0].Lingers {
			t.Errorf("snapshot %+v, %v: want a holder that does not linger", s, err)
		}
		start := time.Now()
		mustNotLock(t, other.TryLock, t.Context(), holdfast.ErrNotAcquired)
		if took := time.Since(start); took != 0 {
			t.Errorf("TryLock of a resource with readers took %v", took)
		}
		late := mustLock(t, own.RLock, t.Context())
		calls(t, e, "release", 0, func() { mustRelease(t, first) })
		calls(t, e, "release", 1, func() { mustRelease(t, late) })
		w := mustLock(t, other.TryLock, t.Context())
		if w.Token() <= late.Token() {
			t.Errorf("the writer has token %d after %d", w.Token(), late.Token())
		}
		mustRelease(t, w)
	})
}

// The first readers of a client make a call each, and none waits for the subscription.
func TestReadersDoNotWaitForTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		rw := c.RWMutex("x")
		e.Set(func() { e.OnListen = hang })
		start := time.Now()
		first := mustLock(t, rw.RLock, t.Context())
		second := mustLock(t, rw.RLock, t.Context()) // within a quantum
		time.Sleep(2 * time.Millisecond)
		third := mustLock(t, rw.RLock, t.Context())
		if took := time.Since(start); took != 2*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if first.HolderID() != second.HolderID() || third.HolderID() == first.HolderID() {
			t.Errorf("leases %s, %s and %s: want the first two alike", first.HolderID(), second.HolderID(), third.HolderID())
		}
		for _, l := range []*holdfast.Lease{first, second, third} {
			mustRelease(t, l)
		}
		wantEmpty(t, e, "x")
	})
}

// A writer that waits keeps newcomers out, and enters when those inside have left, before later readers.
func TestWriterStopsNewcomers(t *testing.T) {
	for _, same := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, own, other, _ := reading(t)
			if same {
				other = own
			}
			first := mustLock(t, own.RLock, t.Context())
			second := mustLock(t, own.RLock, t.Context())
			writer := lockSoon(t.Context(), other.Lock)
			synctest.Wait()
			late := lockSoon(t.Context(), own.RLock)
			later := lockSoon(t.Context(), own.RLock)
			synctest.Wait()
			wantWaiting(t, late, "a writer waits")
			mustNotLock(t, own.TryRLock, t.Context(), holdfast.ErrNotAcquired)
			mustRelease(t, first)
			synctest.Wait()
			wantWaiting(t, writer, "a reader is inside")
			time.Sleep(time.Second)
			mustRelease(t, second)
			start := time.Now()
			w := wantGrant(t, writer)
			if d := time.Since(start); d != 0 {
				t.Errorf("the writer was granted %v after the last reader", d)
			}
			synctest.Wait()
			wantWaiting(t, late, "the writer is inside")
			mustRelease(t, w.lease)
			a, b := wantGrant(t, late).lease, wantGrant(t, later).lease
			if a.HolderID() != b.HolderID() || a.Token() <= w.lease.Token() {
				t.Errorf("readers %s with token %d and %s: want one lease with a token above %d", a.HolderID(), a.Token(), b.HolderID(), w.lease.Token())
			}
			mustRelease(t, a)
			mustRelease(t, b)
		})
	}
}

// A grant that was pushed to a waiter lets newcomers join for a quantum: other writers may wait behind it.
func TestPushedGrantIsSharedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, other, _ := reading(t)
		w := mustLock(t, other.Lock, t.Context())
		waiting := lockSoon(t.Context(), own.RLock)
		synctest.Wait()
		second := lockSoon(t.Context(), newClient(t, e).RWMutex("x").Lock)
		synctest.Wait()
		mustRelease(t, w)
		first := wantGrant(t, waiting).lease
		soon := mustLock(t, own.RLock, t.Context())
		time.Sleep(time.Millisecond)
		late := lockSoon(t.Context(), own.RLock)
		synctest.Wait()
		wantWaiting(t, late, "a writer waits behind the readers")
		mustRelease(t, first)
		mustRelease(t, soon)
		mustRelease(t, wantGrant(t, second).lease)
		mustRelease(t, wantGrant(t, late).lease)
	})
}

// If the recall is lost, newcomers join for a second at most, or a third of the TTL.
func TestLostRecallOfReaders(t *testing.T) {
	for _, ttl := range []time.Duration{holdfast.DefaultTTL, 900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			e, _, other, c := reading(t)
			e.Set(func() { e.OnWake = func(w engine.Wakeup) bool { return w.Kind != engine.WakeWanted } })
			own := c.RWMutex("x", holdfast.WithTTL(ttl))
			ctx, stop := context.WithCancel(t.Context())
			var readers sync.WaitGroup
			for i := range 4 {
				readers.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					for ctx.Err() == nil {
						_ = own.RDo(ctx, func(context.Context) error {
							time.Sleep(4 * time.Millisecond)
							return nil
						})
					}
				})
			}
			time.Sleep(10 * time.Millisecond)
			start := time.Now()
			w := mustLock(t, other.Lock, t.Context())
			if d := time.Since(start); d > min(time.Second, ttl/3)+4*time.Millisecond {
				t.Errorf("the writer waited for %v", d)
			}
			stop()
			mustRelease(t, w)
			readers.Wait()
		})
	}
}

// A Resync may stand for a recall.
func TestResyncStopsNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, _ := reading(t)
		first := mustLock(t, own.RLock, t.Context())
		var deliver func(engine.Wakeup)
		e.Set(func() { deliver = e.Deliver })
		deliver(engine.Wakeup{Kind: engine.Resync})
		synctest.Wait()
		second := mustLock(t, own.RLock, t.Context())
		if first.HolderID() == second.HolderID() {
			t.Error("a newcomer joined after a Resync")
		}
		mustRelease(t, first)
		mustRelease(t, second)
	})
}

// The caller whose request waits withdraws: the next one has its place in the store's queue.
func TestFirstReaderWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, other, _ := reading(t)
		w := mustLock(t, other.Lock, t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		first := lockSoon(ctx, own.RLock)
		synctest.Wait()
		place := look(t, e, "x").Waiters[0].ID
		second, third := lockSoon(t.Context(), own.RLock), lockSoon(t.Context(), own.RLock)
		gone, leave := context.WithCancel(t.Context())
		fourth := lockSoon(gone, own.RLock)
		synctest.Wait()
		cancel()
		leave()
		wantErr(t, (<-first).err, context.Canceled)
		wantErr(t, (<-fourth).err, context.Canceled)
		synctest.Wait()
		if s := look(t, e, "x"); len(s.Waiters) != 1 || s.Waiters[0].ID != place {
			t.Errorf("waiters %+v, want %s", s.Waiters, place)
		}
		mustRelease(t, w)
		mustRelease(t, wantGrant(t, second).lease)
		mustRelease(t, wantGrant(t, third).lease)
		wantEmpty(t, e, "x")
	})
}

// The ctx of readers ends at the moment at which they get a share of the lease.
func TestReaderWithdrawsAtTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, _ := reading(t)
		leave := func() {}
		e.Set(func() {
			e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				time.Sleep(time.Millisecond) // the others wait behind this one
				leave()
				return e.Engine.Acquire(ctx, r)
			}
		})
		for range 500 {
			ctx, cancel := context.WithCancel(t.Context())
			leave = cancel
			all := []<-chan result{lockSoon(t.Context(), own.RLock)}
			synctest.Wait()
			for range 5 {
				all = append(all, lockSoon(ctx, own.RLock))
			}
			for _, got := range all {
				if r := <-got; r.err == nil {
					mustRelease(t, r.lease)
				}
			}
			time.Sleep(10 * time.Millisecond)
			wantEmpty(t, e, "x")
		}
	})
}

// A break or a loss ends the leases of all readers that share one, each with its event; the others of the process
// get a new one.
func TestSharedLeaseEndsForAll(t *testing.T) {
	for _, how := range []string{"break", "force", "lost"} {
		synctest.Test(t, func(t *testing.T) {
			j := &releases{}
			e, own, other, c := reading(t, holdfast.WithHooks(j))
			var all []*holdfast.Lease
			for range 3 {
				all = append(all, mustLock(t, own.RLock, t.Context()))
			}
			writer := lockSoon(t.Context(), other.Lock)
			synctest.Wait()
			*j = releases{}
			switch how {
			case "lost":
				e.All(down)
				time.Sleep(holdfast.DefaultTTL)
				e.All(nil)
			default:
				var opts []holdfast.BreakOption
				if how == "force" {
					opts = append(opts, holdfast.Force())
				}
				if err := c.Break(t.Context(), "x", all[0].HolderID(), opts...); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			for _, l := range all {
				wantErr(t, l.Err(), holdfast.ErrLost)
			}
			if how == "break" {
				wantErr(t, all[1].Release(t.Context()), holdfast.ErrLost)
				wantErr(t, all[0].Release(t.Context()), holdfast.ErrLost)
				synctest.Wait()
				wantWaiting(t, writer, "one of the readers has not released the broken lease")
			}
			wantErr(t, all[2].Release(t.Context()), holdfast.ErrLost)
			mustRelease(t, wantGrant(t, writer).lease)
			if lost, n := j.lost.Load(), j.released.Load(); lost != 3 || n != 0 {
				t.Errorf("%d losses and %d releases were reported, want 3 and 0", lost, n)
			}
			if s := c.Stats(); s.Losses.Broken+s.Losses.Unreachable+s.Losses.Taken+s.Losses.Deleted+s.Losses.Expired != 3 {
				t.Errorf("stats %+v, want 3 losses", s)
			}
			mustRelease(t, mustLock(t, own.RLock, t.Context()))
			wantEmpty(t, e, "x")
		})
	}
}

// releases counts events.
type releases struct{ acquired, released, lost atomic.Int64 }

func (r *releases) AcquireEnd(_ context.Context, e holdfast.AcquireEndEvent) {
	if e.Err == nil && e.Source != holdfast.SourceContext {
		r.acquired.Add(1)
	}
}
func (r *releases) Release(holdfast.ReleaseEvent) { r.released.Add(1) }
func (r *releases) Lost(*holdfast.LostError)      { r.lost.Add(1) }

// Each reader has its events and its time, and re-entrant leases have none.
func TestEventsOfSharedReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, held := &releases{}, &heldTimes{}
		e, _, _, c := reading(t, holdfast.WithHooks(j, held))
		own := c.RWMutex("x", holdfast.WithReentrancy())
		*j, held.all = releases{}, nil
		first := mustLock(t, own.RLock, t.Context())
		time.Sleep(10 * time.Millisecond)
		second := mustLock(t, own.RLock, t.Context())
		inner := mustLock(t, own.RLock, second.Context())
		time.Sleep(5 * time.Millisecond)
		mustRelease(t, first)
		mustRelease(t, inner)
		time.Sleep(time.Millisecond)
		mustRelease(t, second)
		wantErr(t, second.Release(t.Context()), holdfast.ErrNotHeld)
		if n, r := j.acquired.Load(), j.released.Load(); n != 2 || r != 2 {
			t.Errorf("%d acquired and %d released, want 2 and 2", n, r)
		}
		if want := []time.Duration{15 * time.Millisecond, 6 * time.Millisecond}; !slices.Equal(held.all, want) {
			t.Errorf("held for %v, want %v", held.all, want)
		}
		for range 3 {
			mustLock(t, own.RLock, t.Context())
		}
		time.Sleep(time.Millisecond)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if n := j.released.Load(); n != 5 {
			t.Errorf("%d releases were reported after Close, want 5", n)
		}
		wantEmpty(t, e, "x")
	})
}

// heldTimes are the times of releases.
type heldTimes struct{ all []time.Duration }

func (h *heldTimes) Release(e holdfast.ReleaseEvent) { h.all = append(h.all, e.Held) }

// A lease that others share cannot be detached; one that its reader has alone can, and nobody joins it then.
func TestDetachOfASharedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, c := reading(t)
		first, second := mustLock(t, own.RLock, t.Context()), mustLock(t, own.RLock, t.Context())
		_, err := first.Detach(t.Context())
		wantErr(t, err, holdfast.ErrNotHeld)
		_, err = second.Detach(t.Context())
		wantErr(t, err, holdfast.ErrNotHeld)
		wantErr(t, first.Demote(t.Context()), holdfast.ErrNotHeld)
		mustRelease(t, second)
		e.Slow(time.Millisecond, time.Millisecond)
		newcomer := lockSoon(t.Context(), func(ctx context.Context) (*holdfast.Lease, error) {
			time.Sleep(500 * time.Microsecond)
			return own.RLock(ctx)
		})
		ticket, err := first.Detach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l := wantGrant(t, newcomer).lease
		e.All(nil)
		if l.HolderID() == first.HolderID() {
			t.Error("a newcomer joined a lease that is being detached")
		}
		mustRelease(t, l)
		adopted, err := c.Adopt(t.Context(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, adopted)
		wantEmpty(t, e, "x")
	})
}

// What is not shared: leases of other options, and those of a writer that was demoted.
func TestReadersThatDoNotShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, own, _, c := reading(t)
		first := mustLock(t, own.RLock, t.Context())
		for name, opts := range map[string][]holdfast.LockOption{
			"no tenure":  {holdfast.WithoutTenure()},
			"no renewal": {holdfast.WithoutRenewal()},
			"fallback":   {holdfast.WithFallback(holdfast.FailOpen)},
			"TTL":        {holdfast.WithTTL(time.Minute)},
		} {
			a, b := mustLock(t, c.RWMutex("x", opts...).RLock, t.Context()), mustLock(t, c.RWMutex("x", opts...).RLock, t.Context())
			if a.HolderID() == first.HolderID() || (a.HolderID() == b.HolderID()) != (name == "TTL") {
				t.Errorf("%s: leases %s and %s beside %s", name, a.HolderID(), b.HolderID(), first.HolderID())
			}
			mustRelease(t, a)
			mustRelease(t, b)
		}
		mustRelease(t, first)
		w := mustLock(t, own.Lock, t.Context())
		if err := w.Demote(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := mustLock(t, own.RLock, t.Context())
		if l.HolderID() == w.HolderID() {
			t.Error("a reader shares the lease of a demoted writer")
		}
		mustRelease(t, w)
		mustRelease(t, l)
	})
}

// A Mutex and an RWMutex of one name do not mix up their lines.
func TestLinesOfReadersAreTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, own, _, c := reading(t)
		l := mustLock(t, c.Mutex("x").Lock, t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		mustNotLock(t, own.RLock, ctx, holdfast.ErrMismatch)
		mustRelease(t, l)
	})
}

// A process dies with its readers inside: one lease expires, and the writer enters.
func TestProcessOfSharedReadersDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		store := e.Engine
		c := newClient(t, e)
		subscribe(t, c)
		for range 5 {
			mustLock(t, c.RWMutex("x").RLock, t.Context())
		}
		e.All(down)
		start := time.Now()
		w := mustLock(t, newClient(t, store).RWMutex("x").Lock, t.Context())
		if d := time.Since(start); d > holdfast.DefaultTTL+time.Second {
			t.Errorf("the writer waited for %v", d)
		}
		mustRelease(t, w)
	})
}

// Many readers share a lease: one call to acquire it, one to release it, and no work that grows with their number squared.
func TestManySharedReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, c := reading(t)
		first := mustLock(t, own.RLock, t.Context())
		all := make([]*holdfast.Lease, 100_000)
		calls(t, e, "acquire", 0, func() {
			for i := range all {
				all[i] = mustLock(t, own.RLock, t.Context())
			}
		})
		calls(t, e, "release", 0, func() {
			for i := range all {
				mustRelease(t, all[i*7919%len(all)])
			}
		})
		if s := c.Stats(); s.Leases != 1 {
			t.Errorf("%d leases in the store, want 1", s.Leases)
		}
		mustRelease(t, first)
		wantEmpty(t, e, "x")
	})
}

// Processes with readers and writers on one resource: never a reader beside a writer, tokens rise from writer to
// writer, and a reader's token is between those of the writers around it.
func TestSharedReadersUnderContention(t *testing.T) {
	store := memory.New()
	for name, e := range map[string]engine.Engine{"recalls": newFaulty(), "no recalls": struct{ engine.Engine }{store}} {
		t.Run(name, func(t *testing.T) {
			var readers, writers, reads, shared atomic.Int64
			var written atomic.Uint64
			stop := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(stop) })
			var work sync.WaitGroup
			for range 3 {
				c := newClient(t, e)
				rw := c.RWMutex("x")
				for i := range 6 {
					work.Go(func() {
						for n := 0; ; n++ {
							select {
							case <-stop:
								return
							default:
							}
							if i == 0 {
								l, err := rw.Lock(context.Background())
								if err != nil {
									t.Error(err)
									return
								}
								if writers.Add(1) != 1 || readers.Load() != 0 {
									t.Error("a writer beside others")
								}
								if before := written.Swap(l.Token()); before >= l.Token() {
									t.Errorf("token %d after %d", l.Token(), before)
								}
								writers.Add(-1)
								mustRelease(t, l)
								<-time.After(5 * time.Millisecond)
								continue
							}
							l, err := rw.RLock(context.Background())
							if err != nil {
								t.Error(err)
								return
							}
							before := readers.Add(1)
							if writers.Load() != 0 {
								t.Error("a reader beside a writer")
							}
							if l.Token() <= written.Load() {
								t.Errorf("a reader with token %d after a writer with %d", l.Token(), written.Load())
							}
							if before > 1 {
								shared.Add(1)
							}
							reads.Add(1)
							readers.Add(-1)
							mustRelease(t, l)
						}
					})
				}
			}
			work.Wait()
			t.Logf("%d reads, %d beside others", reads.Load(), shared.Load())
		})
	}
}
