package enginetest

import (
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

func firstComeFirstServed(s *scene) {
	holder := s.party("holder")
	waiting := s.parties("a", "b", "c", "d", "e")
	held := s.hold(holder.request())
	var requests []engine.Request
	for i, p := range waiting {
		requests = append(requests, p.request())
		s.wait(requests[i], i)
	}
	for i, p := range waiting {
		s.release(held)
		next := p.handed(requests[i])
		if next.Token <= held.Token {
			s.Errorf("token %d after %d", next.Token, held.Token)
		}
		held = next
		for _, other := range waiting[i+1:] {
			other.silent()
		}
	}
	s.release(held)
}

func nobodyPassesTheFront(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	next := b.request()
	s.wait(next, 0)
	s.release(held)
	// b was granted in the same step, so c finds it as the holder.
	if got := s.refuse(once(c.request())); got.Holder.ID != next.ID {
		s.Errorf("got %+v, want holder %s", got, next.ID)
	}
}

func directGrantIsClaimed(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	next := b.request()
	s.wait(next, 0)
	s.release(held)
	w := b.granted(next)
	if w.Token <= held.Token || w.TTL > engine.ClaimWindow || w.TTL != 0 && w.TTL <= s.least(engine.ClaimWindow) {
		s.Errorf("got %+v, want a token above %d for about %v", w, held.Token, engine.ClaimWindow)
	}
	if snap := s.snapshot(); len(snap.Holders) != 1 || snap.Holders[0].TTL > engine.ClaimWindow {
		s.Errorf("got %+v, want a lease of %v at most", snap, engine.ClaimWindow)
	}
	if err := s.renew(engine.Held{ID: next.ID, Token: w.Token}, next.TTL); err != nil {
		s.Fatalf("the first renewal: %v", err)
	}
	if snap := s.snapshot(); len(snap.Holders) != 1 || snap.Holders[0].TTL <= s.least(long) {
		s.Errorf("got %+v, want a lease of about %v", snap, long)
	}
}

func directGrantNotClaimed(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	next := lasting(short/2, b.request()) // below the claim window
	s.wait(next, 0)
	s.release(held)
	if w := b.granted(next); w.TTL > short/2 {
		s.Errorf("granted for %v, requested for %v", w.TTL, short/2)
	}
	c.poll(c.request())
	s.wantEnded(next, engine.CauseExpired)
}

func deadWaitersCostOneClaimWindow(s *scene) {
	a, dead, live := s.party("a"), s.party("dead"), s.party("live")
	held := s.hold(a.request())
	for i := range 5 {
		s.wait(dead.request(), i)
	}
	r := live.request()
	s.wait(r, 5)
	s.release(held)
	released := time.Now()
	live.pollWith(r, func(sent time.Time, _ engine.Answer) {
		if cost := sent.Sub(released); cost > engine.ClaimWindow+engine.PollInterval {
			s.Fatalf("a queue of dead waiters cost %v, want %v at most", cost, engine.ClaimWindow)
		}
	})
}

func deadWaiterIsDropped(s *scene) {
	a, dead, c := s.party("a"), s.party("dead"), s.party("c")
	held := s.hold(a.request())
	s.wait(dead.request(), 0)
	s.passTTL(engine.WaiterLife)
	if snap := s.snapshot(); len(snap.Waiters) != 0 {
		s.Errorf("got %+v, want no live waiter", snap)
	}
	s.release(held)
	s.hold(once(c.request()))
	dead.silent()
}

func pollingKeepsPlace(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	first, second := b.request(), c.request()
	tick := time.NewTicker(engine.PollInterval)
	defer tick.Stop()
	for start := time.Now(); time.Since(start) < engine.WaiterLife+engine.PollInterval; <-tick.C {
		s.wait(first, 0)
		s.wait(second, 1)
	}
	s.release(held)
	b.granted(first)
	c.silent()
}

func yieldPassesToWaiter(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	next := b.request()
	s.wait(next, 0)
	turn := a.request()
	turn.Yields = held
	s.wait(turn, 0)
	got := b.handed(next)
	s.wait(turn, 0) // a copy changes nothing
	if err := s.renew(got, long); err != nil {
		s.Errorf("the copy hurt the next holder: %v", err)
	}
	s.wantNotHeld(s.renew(held, long), engine.CauseReleased)
	s.release(got)
	if again := a.handed(turn); again.Token <= got.Token || got.Token <= held.Token {
		s.Errorf("tokens %d, %d, %d, want them to grow", held.Token, got.Token, again.Token)
	}
}

func yieldWithoutWaiters(s *scene) {
	a := s.party("a")
	held := s.hold(a.request())
	turn := a.request()
	turn.Yields = held
	if again := s.hold(turn); again.Token <= held.Token {
		s.Errorf("token %d after %d", again.Token, held.Token)
	}
	if snap := s.snapshot(); len(snap.Holders) != 1 || snap.Holders[0].ID != turn.ID {
		s.Errorf("got %+v, want holder %s", snap, turn.ID)
	}
}
