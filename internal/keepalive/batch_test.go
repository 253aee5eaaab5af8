package keepalive

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// addAll adds n leases at once.
func addAll(s *Scheduler, n int) []*holder {
	all := make([]*holder, n)
	for i := range all {
		all[i] = newHolder(s, fmt.Sprint(i), 15*time.Second)
		s.Add(&all[i].entry, Usual)
	}
	return all
}

// count returns how many batches there are.
func (s *Scheduler) count() (all, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heap), len(s.open)
}

// What is due at about the same time goes out together, and stays together.
func TestNeighboursGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		for range 40 {
			addAll(s, 1)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		// At most every 50 ms, and 12 times a minute.
		if st.calls > 8*12+8 || st.renewed < 40*11 {
			t.Errorf("%d calls for %d renewals of 40 leases", st.calls, st.renewed)
		}
		if all, _ := s.count(); all > 8 {
			t.Errorf("%d batches", all)
		}
	})
}

// Batches that have become small go together, if they are due together.
func TestSmallBatchesBecomeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		s := New(st)
		defer s.Stop()
		all := addAll(s, 3*batchSize)
		for i, h := range all {
			if i%4 > 0 {
				s.Remove(&h.entry)
			}
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if st.calls != 1 || st.renewed != 3*batchSize/4 {
			t.Errorf("%d calls for %d leases", st.calls, st.renewed)
		}
	})
}

// A batch loses some of its leases while it is under way, one of them is not held
// any more and another has no answer. The rest is renewed as before.
func TestLeavingABatchUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]error{
			"3": fmt.Errorf("wrapped: %w", &engine.NotHeldError{Cause: engine.CauseExpired}), "5": engine.ErrUnavailable,
		}
		st := &store{}
		st.answer = func(_ context.Context, r engine.Renewal) error {
			if r.ID == "0" {
				time.Sleep(100 * time.Millisecond)
			}
			return answers[r.ID]
		}
		s := New(st)
		defer s.Stop()
		all := addAll(s, 8)
		time.Sleep(5*time.Second + 50*time.Millisecond)
		removed := []int{0, 2, 7}
		for _, i := range removed {
			s.Remove(&all[i].entry)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for i, h := range all {
			switch gone := slices.Contains(removed, i); {
			case gone && h.renewed+h.lost+h.jeopardy > 0:
				t.Errorf("%d was removed, and called %d times", i, h.renewed+h.lost+h.jeopardy)
			case i == 3 && (h.lost != 1 || h.cause == nil):
				t.Errorf("%d: lost %d times, %v", i, h.lost, h.cause)
			case i == 5 && (h.lost != 1 || h.jeopardy < 5):
				t.Errorf("%d: lost %d times, in jeopardy %d times", i, h.lost, h.jeopardy)
			case !gone && i != 3 && i != 5 && (h.renewed < 719 || h.lost+h.jeopardy > 0):
				t.Errorf("%d: renewed %d times, lost %d times", i, h.renewed, h.lost)
			}
		}
	})
}

// A window that closes while its batch hangs is reported then, whatever the others do.
func TestWindowsOfABatchCloseOneByOne(t *testing.T) {
	for _, first := range []First{Usual, Never} {
		synctest.Test(t, func(t *testing.T) {
			st := &store{answer: func(context.Context, engine.Renewal) error {
				time.Sleep(time.Hour)
				return engine.ErrUnavailable
			}}
			s := New(st)
			var all []*holder
			for i := range 20 {
				h := newHolder(s, fmt.Sprint(i), 15*time.Second)
				h.entry.Window.Start(s.Now(), 15*time.Second, time.Duration(40-i)*time.Millisecond)
				s.Add(&h.entry, first)
				all = append(all, h)
			}
			start := time.Now()
			time.Sleep(15 * time.Second)
			synctest.Wait()
			for i, h := range all {
				if after := h.lostAt.Sub(start); h.lost != 1 || after != 15*time.Second-time.Duration(40-i)*time.Millisecond {
					t.Errorf("%d: lost %d times, after %v", i, h.lost, after)
				}
			}
			s.Stop()
		})
	}
}

// Leases that are released at once leave nothing, whatever their TTLs are.
func TestNothingIsLeftOfShortLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&store{})
		defer s.Stop()
		for i := range 10_000 {
			ttl := 15 * time.Second
			if i%2 == 0 {
				ttl += time.Duration(i)
			}
			h := newHolder(s, "a", ttl)
			s.Add(&h.entry, First(i/2%3))
			s.Remove(&h.entry)
		}
		if all, open := s.count(); all > maxOpen+1 || open != all {
			t.Errorf("%d batches, %d of them open", all, open)
		}
		time.Sleep(time.Minute)
		if all, open := s.count(); all > 0 || open > 0 {
			t.Errorf("a minute later %d batches, %d of them open", all, open)
		}
	})
}
