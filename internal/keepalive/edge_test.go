package keepalive

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A lease whose window ends sooner than those of the leases before it does not wait for them.
func TestAShorterWindowIsClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&store{})
		defer s.Stop()
		const ttl = 10 * time.Second
		whole, half := newHolder(s, "whole", ttl), newHolder(s, "half", ttl)
		half.entry.Window.Start(s.At(time.Now().Add(-ttl/2)), ttl, Margin(ttl))
		s.Add(&whole.entry, Never)
		s.Add(&half.entry, Never)
		start := time.Now()
		time.Sleep(time.Minute)
		synctest.Wait()
		for h, want := range map[*holder]time.Duration{whole: ttl - Margin(ttl), half: ttl/2 - Margin(ttl)} {
			if got := h.lostAt.Sub(start); h.lost != 1 || got != want {
				t.Errorf("%s: lost %d times, after %v; want %v", h.id, h.lost, got, want)
			}
		}
	})
}

// A long lease that is due together with a short one is not renewed with the timeout of that.
func TestALongLeaseHasItsOwnTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&store{answer: func(ctx context.Context, r engine.Renewal) error {
			select {
			case <-time.After(50 * time.Millisecond): // too long for the short lease
				return nil
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
			}
		}})
		defer s.Stop()
		long := newHolder(s, "long", 3*time.Second)
		s.Add(&long.entry, Usual)
		time.Sleep(time.Second - shortTTL/3)
		short := newHolder(s, "short", shortTTL)
		s.Add(&short.entry, Usual)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if long.jeopardy != 0 || long.renewed != 1 || short.lost != 1 {
			t.Errorf("long: %d renewals failed, %d succeeded; short: lost %d times", long.jeopardy, long.renewed, short.lost)
		}
	})
}

// shortTTL is the shortest TTL of the client.
const shortTTL = 100 * time.Millisecond

// A call that never returns does not keep the windows of its leases from being closed, also of
// those that were added to it since they were nearly due.
func TestACallThatNeverReturnsDelaysNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		s := New(&store{answer: func(context.Context, engine.Renewal) error {
			<-back
			return nil
		}})
		first, nearly := newHolder(s, "first", 15*time.Second), newHolder(s, "nearly", 15100*time.Millisecond)
		s.Add(&first.entry, Usual)
		s.Add(&nearly.entry, Usual)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, h := range []*holder{first, nearly} {
			if h.lost != 1 {
				t.Errorf("%s: lost %d times", h.id, h.lost)
			}
		}
		close(back)
		s.Stop()
	})
}

// However many batches are due, so many calls are under way and no more.
func TestFirstCallsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var underWay atomic.Int32
		back := make(chan struct{})
		s := New(&store{answer: func(_ context.Context, r engine.Renewal) error {
			if r.ID == "first of a call" {
				underWay.Add(1)
				<-back
			}
			return nil
		}})
		for i := range batchSize * (maxCalls + 8) {
			id := ""
			if i%batchSize == 0 {
				id = "first of a call"
			}
			h := newHolder(s, id, 15*time.Second)
			s.Add(&h.entry, Usual)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if n := underWay.Load(); n != maxCalls {
			t.Errorf("%d calls are under way, want %d", n, maxCalls)
		}
		close(back)
		s.Stop()
	})
}

// A store that takes a second to answer changes neither how often a lease is renewed, nor that its
// window counts from when the renewal was sent, with one margin.
func TestASlowAnswerDelaysNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 15 * time.Second
		var sent time.Time
		st := &store{answer: func(context.Context, engine.Renewal) error {
			sent = time.Now()
			time.Sleep(time.Second)
			return nil
		}}
		s := New(st)
		defer s.Stop()
		h := newHolder(s, "a", ttl)
		s.Add(&h.entry, Usual)
		time.Sleep(time.Minute + 2*time.Second)
		synctest.Wait()
		if h.renewed != 12 {
			t.Errorf("%d renewals in a minute, want 12", h.renewed)
		}
		if open := s.Closes(&h.entry.Window).Sub(sent); open != ttl-Margin(ttl) {
			t.Errorf("the window is open for %v after the renewal was sent", open)
		}
	})
}
