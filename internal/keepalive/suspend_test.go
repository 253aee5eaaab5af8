package keepalive

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// suspend is what a suspend of the machine looks like after it: the wall clock has gone on, and the
// monotonic clock has not. In a bubble both go on, so what was read before is set back.
func suspend(s *Scheduler, d time.Duration, holders ...*holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead -= int64(d)
	for _, h := range holders {
		h.entry.Window.wall.Add(-int64(d))
	}
}

// A holder that waits for the end of its lease hears within a second after a suspend that the window has
// closed, although its timers stood still.
func TestSuspendPastTheWindow(t *testing.T) {
	for _, first := range []First{Usual, Never} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &store{}
				s := New(st)
				defer s.Stop()
				h := newHolder(s, "a", time.Hour)
				s.Add(&h.entry, first)
				time.Sleep(time.Minute)
				suspend(s, 2*time.Hour, h)
				resumed := time.Now()
				time.Sleep(time.Minute)
				synctest.Wait()
				if h.lost != 1 || h.lostAt.Sub(resumed) > lookEvery {
					t.Errorf("lost %d times, %v after the suspend", h.lost, h.lostAt.Sub(resumed))
				}
				if st.calls != 0 {
					t.Errorf("%d renewals of a lease that was lost", st.calls)
				}
			})
		})
	}
}

// After a suspend within the window the lease is renewed within a second, and one that is not renewed is lost
// when its window closes by the wall clock.
func TestSuspendWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		kept, left := newHolder(s, "a", time.Hour), newHolder(s, "b", time.Hour)
		s.Add(&kept.entry, Usual)
		s.Add(&left.entry, Never)
		time.Sleep(time.Minute)
		suspend(s, 30*time.Minute, kept, left)
		resumed := time.Now()
		time.Sleep(lookEvery)
		synctest.Wait()
		if kept.renewed != 1 || st.renewed != 1 {
			t.Errorf("renewed %d times of %d", kept.renewed, st.renewed)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want := 29*time.Minute - Margin(time.Hour)
		if took := left.lostAt.Sub(resumed); left.lost != 1 || took < want || took > want+lookEvery {
			t.Errorf("lost %d times, after %v and not %v", left.lost, took, want)
		}
		if kept.lost != 0 {
			t.Error("the lease that is renewed was lost")
		}
	})
}

// While a store does not answer, a suspend shortens the wait for the end as well.
func TestSuspendWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{answer: func(context.Context, engine.Renewal) error { return engine.ErrUnavailable }}
		s := New(st)
		defer s.Stop()
		h := newHolder(s, "a", time.Hour)
		s.Add(&h.entry, Usual)
		time.Sleep(30 * time.Minute)
		suspend(s, 20*time.Minute, h)
		resumed := time.Now()
		time.Sleep(time.Hour)
		synctest.Wait()
		want := 10*time.Minute - Margin(time.Hour)
		if took := h.lostAt.Sub(resumed); h.lost != 1 || took < want || took > want+lookEvery {
			t.Errorf("lost %d times, after %v and not %v", h.lost, took, want)
		}
	})
}

// Clocks that run a little apart are no suspend, and a clock that is set back is none.
func TestDriftIsNoSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		h := newHolder(s, "a", time.Hour)
		s.Add(&h.entry, Usual)
		for range 600 {
			suspend(s, mostDrift/2) // two of them may come between two looks
			time.Sleep(lookEvery)
		}
		suspend(s, -time.Hour)
		time.Sleep(lookEvery)
		synctest.Wait()
		if st.calls != 0 || h.lost != 0 {
			t.Errorf("%d renewals, lost %d times", st.calls, h.lost)
		}
	})
}

// Twenty thousand leases that a suspend has ended are notified at the first look.
func TestSuspendOfManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&store{})
		defer s.Stop()
		all := make([]*holder, 20_000)
		for i := range all {
			all[i] = newHolder(s, "a", time.Hour)
			s.Add(&all[i].entry, Usual)
		}
		time.Sleep(time.Minute)
		suspend(s, 2*time.Hour, all...)
		resumed := time.Now()
		time.Sleep(lookEvery)
		synctest.Wait()
		for i, h := range all {
			if h.lost != 1 || h.lostAt.Sub(resumed) > lookEvery {
				t.Fatalf("lease %d was lost %d times, %v after the suspend", i, h.lost, h.lostAt.Sub(resumed))
			}
		}
	})
}
