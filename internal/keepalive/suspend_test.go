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

// crowd returns so many leases of an hour that are renewed, with so much time after each.
func crowd(s *Scheduler, n int, apart time.Duration) []*holder {
	all := make([]*holder, n)
	for i := range all {
		all[i] = newHolder(s, "a", time.Hour)
		s.Add(&all[i].entry, Usual)
		time.Sleep(apart)
	}
	synctest.Wait()
	return all
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
// when its window closes by the wall clock, and so is another of its batch.
func TestSuspendWithinTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		kept, left := newHolder(s, "a", time.Hour), newHolder(s, "b", time.Hour)
		s.Add(&kept.entry, Usual)
		s.Add(&left.entry, Never)
		time.Sleep(30 * time.Second)
		next := newHolder(s, "c", time.Hour)
		s.Add(&next.entry, Never)
		time.Sleep(30 * time.Second)
		suspend(s, 30*time.Minute, kept, left, next)
		resumed := time.Now()
		time.Sleep(lookEvery)
		synctest.Wait()
		if n := renewed(st); n != 1 {
			t.Errorf("renewed %d times", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want := 29*time.Minute - Margin(time.Hour)
		if took := left.lostAt.Sub(resumed); left.lost != 1 || took < want || took > want+lookEvery {
			t.Errorf("lost %d times, after %v and not %v", left.lost, took, want)
		}
		if took := next.lostAt.Sub(left.lostAt); next.lost != 1 || took != 30*time.Second {
			t.Errorf("the next was lost %d times, %v after that", next.lost, took)
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

// A suspend is noticed although the wall clock had been set back by more before.
func TestSuspendAfterAStepBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&store{})
		defer s.Stop()
		h := newHolder(s, "a", time.Hour)
		s.Add(&h.entry, Usual)
		suspend(s, -3*time.Hour)
		time.Sleep(lookEvery)
		synctest.Wait() // the clocks have been compared
		suspend(s, 2*time.Hour, h)
		resumed := time.Now()
		time.Sleep(lookEvery)
		synctest.Wait()
		if h.lost != 1 || h.lostAt.Sub(resumed) > lookEvery {
			t.Errorf("lost %d times, %v after the suspend", h.lost, h.lostAt.Sub(resumed))
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
		all := crowd(s, 20_000, 0)
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

// A lease whose grant was under way over a suspend, and arrives after the clocks were compared, is lost when its
// window closes by the wall clock, or renewed in time.
func TestGrantOverASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&store{})
		defer s.Stop()
		granted := time.Now()
		kept, left := newHolder(s, "a", time.Hour), newHolder(s, "b", time.Hour)
		for h, first := range map[*holder]First{kept: Usual, left: Never} {
			h.entry.Window.wall.Add(-int64(50 * time.Minute))
			s.Add(&h.entry, first)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want := 10*time.Minute - Margin(time.Hour)
		if took := left.lostAt.Sub(granted); left.lost != 1 || took != want {
			t.Errorf("lost %d times, after %v and not %v", left.lost, took, want)
		}
		if kept.lost != 0 {
			t.Error("the lease that is renewed was lost")
		}
	})
}

// A renewal that was under way over a suspend counts from when it was sent by the wall clock.
func TestRenewalOverASuspend(t *testing.T) {
	for _, test := range []struct {
		suspended, due time.Duration
	}{{0, 20 * time.Minute}, {15 * time.Minute, 5 * time.Minute}, {50 * time.Minute, -30 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			s := New(&store{})
			defer s.Stop()
			h := newHolder(s, "a", time.Hour)
			s.Add(&h.entry, Usual)
			time.Sleep(time.Minute) // the timer only looks at the clocks
			sent := s.Now()
			sent.Wall -= int64(test.suspended)
			b := h.entry.batch
			b.state = batchSending
			s.settle(renewalCall{entries: []*Entry{&h.entry}, batches: []*batch{b}}, sent, []error{nil})
			if due := b.due - s.Mono(); due != test.due {
				t.Errorf("due in %v after a suspend of %v, and not in %v", due, test.suspended, test.due)
			}
		})
	}
}

// A renewal without an answer after a suspend does not keep the end by the wall clock from being reported.
func TestHungRenewalAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{answer: func(ctx context.Context, _ engine.Renewal) error { <-ctx.Done(); return engine.ErrUnavailable }}
		s := New(st)
		defer s.Stop()
		first, h := newHolder(s, "a", time.Minute), newHolder(s, "b", time.Minute+time.Second)
		began := s.Now()
		s.Add(&first.entry, Usual)
		s.Add(&h.entry, Usual) // its renewal goes along with that of the first, 20 s later
		const end = 21 * time.Second
		h.entry.Window.wall.Add(-int64(h.entry.Window.End() - began.Mono - end))
		time.Sleep(time.Minute)
		synctest.Wait()
		if took := h.lostAt.UnixNano() - began.Wall; h.lost != 1 || took != int64(end) {
			t.Errorf("lost %d times, after %v and not %v", h.lost, time.Duration(took), end)
		}
		if st.sizes[0] != 2 {
			t.Errorf("the first call has %d leases", st.sizes[0])
		}
	})
}

// renewed returns how many renewals a store has had, while there may be more.
func renewed(st *store) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.renewed
}

// A clock that is set to and fro by two services renews nothing, and leases that were due one after the other still are
// after a suspend.
func TestSuspendKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		all := crowd(s, 10, time.Minute)
		for range 60 {
			suspend(s, 2*mostDrift)
			time.Sleep(lookEvery)
			suspend(s, -2*mostDrift)
			time.Sleep(lookEvery)
		}
		synctest.Wait()
		if n := renewed(st); n != 0 {
			t.Errorf("%d renewals while a clock was set to and fro", n)
		}
		suspend(s, 7*time.Minute, all...)
		time.Sleep(lookEvery)
		synctest.Wait()
		if n := renewed(st); n != 0 {
			t.Errorf("%d leases were renewed though the first is due a minute later", n)
		}
		time.Sleep(5*time.Minute + 30*time.Second)
		synctest.Wait()
		if n := renewed(st); n != 6 { // the call of the fifth has room for the next
			t.Errorf("%d leases of 10 were renewed when five are due", n)
		}
	})
}

// The clocks are compared whenever something is made due, not only while leases are held: a wall clock that is set back
// before the first lease does not hide a suspend.
func TestSuspendAfterAStepBackWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&store{})
		defer s.Stop()
		suspend(s, -3*time.Hour)
		time.Sleep(time.Minute)
		h := newHolder(s, "a", time.Hour)
		s.Add(&h.entry, Usual)
		suspend(s, 2*time.Hour, h)
		resumed := time.Now()
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.lost != 1 || h.lostAt.Sub(resumed) > lookEvery {
			t.Errorf("lost %d times, %v after the suspend", h.lost, h.lostAt.Sub(resumed))
		}
	})
}

// Leases that are granted after a suspend are not due sooner for it, whether leases were held over it or not.
func TestGrantsAfterASuspend(t *testing.T) {
	for _, held := range []int{0, 1} {
		t.Run(fmt.Sprint(held), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &store{}
				s := New(st)
				defer s.Stop()
				before := make([]*holder, held)
				for i := range before {
					before[i] = newHolder(s, "b", time.Hour)
					s.Add(&before[i].entry, Never)
				}
				time.Sleep(lookEvery / 2)
				suspend(s, 30*time.Minute, before...)
				crowd(s, 100, time.Millisecond)
				time.Sleep(2 * lookEvery)
				synctest.Wait()
				if n := renewed(st); n != 0 {
					t.Errorf("%d leases were renewed within seconds of the grant for an hour", n)
				}
			})
		})
	}
}

// A renewal that was sent after a suspend, and answered before the clocks were compared, is not followed sooner for it.
func TestRenewalAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		h := newHolder(s, "a", time.Hour)
		st.answer = func(context.Context, engine.Renewal) error {
			if renewed(st) == 1 {
				suspend(s, 15*time.Minute, h)
			}
			return nil
		}
		s.Add(&h.entry, Usual)
		time.Sleep(35 * time.Minute)
		synctest.Wait()
		if n := renewed(st); n != 1 {
			t.Errorf("renewed %d times within a quarter of an hour, want once", n)
		}
	})
}
