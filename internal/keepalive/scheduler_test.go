package keepalive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// store answers renewals as the test says.
type store struct {
	engine.Engine
	mu      sync.Mutex
	calls   int
	renewed int
	sizes   []int
	answer  func(ctx context.Context, r engine.Renewal) error
}

func (s *store) Renew(ctx context.Context, batch []engine.Renewal) []error {
	s.mu.Lock()
	if s.calls++; s.calls > 100_000 {
		panic("renewals without end, at one instant")
	}
	s.renewed += len(batch)
	s.sizes = append(s.sizes, len(batch))
	answer := s.answer
	s.mu.Unlock()
	errs := make([]error, len(batch))
	for i, r := range batch {
		if answer != nil {
			errs[i] = answer(ctx, r)
		}
	}
	return errs
}

// holder records the calls that it gets.
type holder struct {
	entry    Entry
	id       string
	mu       sync.Mutex
	renewed  int
	jeopardy int
	lost     int
	lostAt   time.Time
	cause    *engine.NotHeldError
	last     error
	free     func()
	report   func()
}

func (h *holder) Renewal() engine.Renewal {
	return engine.Renewal{Held: engine.Held{ID: h.id, Token: 1}, TTL: h.entry.TTL}
}

func (h *holder) Renewed(time.Duration) { h.note(func() { h.renewed++ }) }

func (h *holder) Jeopardy(error, time.Duration) { h.note(func() { h.jeopardy++ }) }

func (h *holder) Lost(cause *engine.NotHeldError, last error) (free, report func()) {
	h.note(func() { h.lost++; h.lostAt, h.cause, h.last = time.Now(), cause, last })
	return h.free, h.report
}

func (h *holder) note(what func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what()
}

func newHolder(s *Scheduler, id string, ttl time.Duration) *holder {
	h := &holder{id: id}
	h.entry.TTL, h.entry.Keeper = ttl, h
	h.entry.Window.Start(s.Now(), ttl, Margin(ttl))
	return h
}

func unreachable(context.Context, engine.Renewal) error {
	return fmt.Errorf("%w: refused", engine.ErrUnavailable)
}

func hung(ctx context.Context, _ engine.Renewal) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
}

func ttls() []time.Duration {
	return []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, 15 * time.Second, time.Hour, 24 * time.Hour}
}

func TestRenewsEveryThirdOfTheTTL(t *testing.T) {
	for _, ttl := range ttls() {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &store{}
				s := New(st)
				defer s.Stop()
				h := newHolder(s, "a", ttl)
				s.Add(&h.entry, Usual)
				const intervals = 300
				time.Sleep(intervals*ttl/3 + ttl/6)
				synctest.Wait()
				if st.renewed != intervals || h.renewed != intervals || h.lost != 0 || h.jeopardy != 0 {
					t.Errorf("%d renewals sent, %d reported, %d lost, %d in jeopardy; want %d", st.renewed, h.renewed, h.lost, h.jeopardy, intervals)
				}
			})
		})
	}
}

// The holder is notified before the store's deadline, which counts from the last
// renewal that the store did.
func TestLostBeforeTheDeadline(t *testing.T) {
	for name, answer := range map[string]func(context.Context, engine.Renewal) error{
		"refused": unreachable, "hung": hung,
		"deaf": func(context.Context, engine.Renewal) error { // ignores its ctx
			time.Sleep(48 * time.Hour)
			return engine.ErrUnavailable
		},
	} {
		for _, ttl := range ttls() {
			t.Run(fmt.Sprint(name, ttl), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := &store{answer: answer}
					s := New(st)
					h := newHolder(s, "a", ttl)
					start := time.Now()
					s.Add(&h.entry, Usual)
					time.Sleep(ttl)
					synctest.Wait()
					after := h.lostAt.Sub(start)
					if h.lost != 1 || after >= ttl || after < ttl-Margin(ttl) {
						t.Errorf("lost %d times, after %v of %v", h.lost, after, ttl)
					}
					if h.cause != nil || !errors.Is(h.last, engine.ErrUnavailable) {
						t.Errorf("cause %v, last error %v; want the store's trouble", h.cause, h.last)
					}
					s.Stop()
				})
			})
		}
	}
}

// A store that is away for a day costs little while a lease of a day runs out.
func TestRetriesAreBounded(t *testing.T) {
	for ttl, most := range map[time.Duration]int{100 * time.Millisecond: 12, 15 * time.Second: 100, 24 * time.Hour: 15_000} {
		synctest.Test(t, func(t *testing.T) {
			st := &store{answer: unreachable}
			s := New(st)
			defer s.Stop()
			h := newHolder(s, "a", ttl)
			s.Add(&h.entry, Usual)
			time.Sleep(ttl)
			synctest.Wait()
			if st.calls < 5 || st.calls > most {
				t.Errorf("%v: %d renewals; want 5 to %d", ttl, st.calls, most)
			}
		})
	}
}

func TestNotHeldIsLostAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{answer: func(context.Context, engine.Renewal) error {
			return fmt.Errorf("wrapped: %w", &engine.NotHeldError{Cause: engine.CauseBroken})
		}}
		s := New(st)
		defer s.Stop()
		h := newHolder(s, "a", 15*time.Second)
		s.Add(&h.entry, Usual)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if h.lost != 1 || h.cause == nil || h.cause.Cause != engine.CauseBroken {
			t.Errorf("lost %d times, cause %v", h.lost, h.cause)
		}
		time.Sleep(time.Minute)
		if st.calls != 1 || h.lost != 1 {
			t.Errorf("%d renewals of a lost lease, lost %d times", st.calls, h.lost)
		}
	})
}

func TestJeopardyThenRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{answer: unreachable}
		s := New(st)
		defer s.Stop()
		h := newHolder(s, "a", 15*time.Second)
		s.Add(&h.entry, Usual)
		time.Sleep(9 * time.Second)
		st.mu.Lock()
		st.answer = nil
		st.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		if h.jeopardy < 2 || h.renewed != 1 || h.lost != 0 {
			t.Errorf("jeopardy %d, renewed %d, lost %d", h.jeopardy, h.renewed, h.lost)
		}
		if s.Trouble(&h.entry) != nil {
			t.Error("trouble after the recovery")
		}
		time.Sleep(time.Hour)
		if h.lost != 0 {
			t.Error("lost after the recovery")
		}
	})
}

func TestNeverRenewsButWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		h := newHolder(s, "a", time.Second)
		s.Add(&h.entry, Never)
		time.Sleep(time.Second)
		synctest.Wait()
		if st.calls != 0 || h.lost != 1 || h.cause != nil || h.last != nil {
			t.Errorf("%d renewals, lost %d times (%v, %v)", st.calls, h.lost, h.cause, h.last)
		}
	})
}

// A lease of which little is left, since it was pushed with a claim window or the grant took long, is
// renewed in time, but not before a quick release of it.
func TestLittleIsLeftOfALease(t *testing.T) {
	for _, c := range []struct{ ttl, left, after time.Duration }{
		{15 * time.Second, 50 * time.Millisecond, 12500 * time.Microsecond},
		{15 * time.Second, time.Second, claimDelay},
		{15 * time.Second, 3 * time.Second, claimDelay},
		{15 * time.Second, 10 * time.Second, 320 * time.Millisecond}, // 5 s after it was sent
		{15 * time.Second, 14 * time.Second, 4320 * time.Millisecond},
		{15 * time.Second, 14500 * time.Millisecond, 5 * time.Second}, // within the slack
		{shortTTL, 34 * time.Millisecond, 8500 * time.Microsecond},
		{shortTTL, 70 * time.Millisecond, shortTTL/3 - 8*time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			start, after := time.Now(), []time.Duration(nil)
			s := New(&store{answer: func(context.Context, engine.Renewal) error {
				after = append(after, time.Since(start))
				return nil
			}})
			defer s.Stop()
			h := newHolder(s, "a", c.ttl)
			h.entry.Window.Start(s.Now(), c.left, 0)
			s.Add(&h.entry, Usual)
			time.Sleep(c.after)
			synctest.Wait()
			if !slices.Equal(after, []time.Duration{c.after}) || h.entry.Window.Left(s.Now()) != c.ttl-Margin(c.ttl) {
				t.Errorf("%v of %v: renewed after %v, want %v; then %v left", c.left, c.ttl, after, c.after, h.entry.Window.Left(s.Now()))
			}
		})
	}
}

func TestRemoveStopsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		a, b, never := newHolder(s, "a", time.Second), newHolder(s, "b", time.Second), newHolder(s, "c", time.Second)
		s.Add(&a.entry, Usual)
		s.Add(&b.entry, Usual)
		s.Remove(&a.entry)
		s.Remove(&a.entry)
		s.Remove(&never.entry) // was never added
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if a.renewed != 0 || a.lost != 0 || b.renewed < 29 || b.lost != 0 {
			t.Errorf("removed: renewed %d, lost %d; other: renewed %d, lost %d", a.renewed, a.lost, b.renewed, b.lost)
		}
	})
}

// A renewal that is under way when the lease is released is not reported.
func TestRemoveDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{answer: func(context.Context, engine.Renewal) error {
			time.Sleep(100 * time.Millisecond)
			return &engine.NotHeldError{Cause: engine.CauseReleased}
		}}
		s := New(st)
		defer s.Stop()
		h := newHolder(s, "a", 3*time.Second)
		s.Add(&h.entry, Usual)
		time.Sleep(time.Second + 50*time.Millisecond)
		s.Remove(&h.entry)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if st.calls != 1 || h.lost+h.renewed+h.jeopardy != 0 {
			t.Errorf("%d calls, reported %d times", st.calls, h.lost+h.renewed+h.jeopardy)
		}
	})
}

// What is due together goes out together, in batches of a bounded size, and no
// goroutine waits meanwhile.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		before := runtime.NumGoroutine()
		const n = 1300
		all := make([]*holder, n)
		for i := range all {
			all[i] = newHolder(s, fmt.Sprint(i), 15*time.Second)
			s.Add(&all[i].entry, Usual)
		}
		if grown := runtime.NumGoroutine() - before; grown > 0 {
			t.Errorf("%d goroutines more for %d leases", grown, n)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if st.calls != 3 || st.renewed != n {
			t.Errorf("%d calls %v for %d leases", st.calls, st.sizes, st.renewed)
		}
		s.Stop()
	})
}

// One hung renewal holds up neither the others nor the end of its own window.
func TestHungBatchDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{answer: func(ctx context.Context, r engine.Renewal) error {
			if r.ID == "bad" {
				return hung(ctx, r)
			}
			return nil
		}}
		s := New(st)
		bad := newHolder(s, "bad", time.Second)
		s.Add(&bad.entry, Usual)
		time.Sleep(100 * time.Millisecond)
		good := newHolder(s, "good", time.Second)
		s.Add(&good.entry, Usual)
		time.Sleep(time.Hour)
		synctest.Wait()
		if bad.lost != 1 || good.lost != 0 {
			t.Errorf("bad lost %d times, good %d times", bad.lost, good.lost)
		}
		s.Stop()
	})
}

func TestStopWaitsForCallsAndEndsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{answer: hung}
		s := New(st)
		h := newHolder(s, "a", 24*time.Hour)
		s.Add(&h.entry, Usual)
		time.Sleep(8 * time.Hour)
		synctest.Wait() // the renewal hangs
		start := time.Now()
		s.Stop()
		if d := time.Since(start); d > 0 || h.lost+h.jeopardy+h.renewed != 0 {
			t.Errorf("Stop took %v, reported %d times", d, h.lost+h.jeopardy+h.renewed)
		}
		late := newHolder(s, "late", time.Second)
		s.Add(&late.entry, Usual)
		s.Remove(&late.entry)
		s.Stop()
	})
}

// Any mixture of leases that come and go: each is renewed in time or its loss is reported.
func TestManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		st := &store{}
		st.answer = func(context.Context, engine.Renewal) error {
			if rand.N(4) == 0 {
				return engine.ErrUnavailable
			}
			return nil
		}
		s := New(st)
		var live []*holder
		for i := range 500 {
			h := newHolder(s, fmt.Sprint(i), ttls()[rnd.IntN(5)])
			s.Add(&h.entry, First(rnd.IntN(2)))
			live = append(live, h)
			if rnd.IntN(2) == 0 {
				k := rnd.IntN(len(live))
				s.Remove(&live[k].entry)
				live = append(live[:k], live[k+1:]...)
			}
			time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
			synctest.Wait()
			for _, h := range live {
				if h.lost == 0 && h.entry.Window.Left(s.Now()) <= 0 {
					t.Fatalf("%s: the window is closed and the loss was not reported", h.id)
				}
			}
		}
		s.Stop()
	})
}

// The trouble of an entry counts until it leaves; if it is added again, it has none.
func TestTroubleOfAnEntryThatIsAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&store{answer: unreachable})
		defer s.Stop()
		h := newHolder(s, "a", 15*time.Second)
		s.Add(&h.entry, Usual)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if n := s.Late(); n != 1 {
			t.Fatalf("%d renewals are late", n)
		}
		s.Remove(&h.entry)
		s.Add(&h.entry, Never)
		s.Remove(&h.entry)
		if n := s.Late(); n != 0 {
			t.Errorf("%d renewals are late when none is left", n)
		}
	})
}
