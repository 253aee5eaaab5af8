package enginetest

import (
	"errors"

	"github.com/holdfast-go/holdfast/engine"
)

func (s *scene) resize(h engine.Held, weight int) {
	s.Helper()
	if err := s.engine.Resize(s.ctx, s.res, h, weight); err != nil {
		s.Fatalf("Resize to %d: %v", weight, err)
	}
}

// What a Resize frees goes to the front of the queue at once, as far as it
// fits; no waiter passes a heavy request there.
func resizeGrantsTheFront(s *scene) {
	a, b, c, heavy, last := s.party("a"), s.party("b"), s.party("c"), s.party("heavy"), s.party("last")
	held := s.hold(a.weighing(5, 5))
	one, two, all, light := b.weighing(1, 5), c.weighing(2, 5), heavy.weighing(4, 5), last.weighing(1, 5)
	for i, r := range []engine.Request{one, two, all, light} {
		s.wait(r, i)
	}
	s.resize(held, 2)
	first, second := b.handed(one), c.handed(two)
	if first.Token <= held.Token || second.Token <= first.Token {
		s.Errorf("tokens %d and %d after %d", first.Token, second.Token, held.Token)
	}
	s.resize(held, 1) // one is free, but heavy is at the front
	s.wait(all, 0)
	s.wait(light, 1)
	last.silent()
	s.release(first)
	s.release(second)
	heavy.granted(all)
	last.silent()
	s.release(held)
	last.granted(light)
}

func resizeKeepsTheLease(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := a.weighing(3, 3)
	held := s.hold(r)
	for range 2 { // a copy of the request has no effect
		s.resize(held, 1)
		snap := s.snapshot()
		if len(snap.Holders) != 1 || snap.Token != held.Token {
			s.Fatalf("got %+v, want one holder and last token %d", snap, held.Token)
		}
		h := snap.Holders[0]
		if h.ID != held.ID || h.Token != held.Token || h.Weight != 1 || h.Reason != r.Reason || h.TTL <= s.least(long) {
			s.Errorf("got %+v, want the same lease with weight 1", h)
		}
	}
	other := s.hold(once(b.weighing(2, 3)))
	if err := s.renew(held, long); err != nil {
		s.Errorf("Renew: %v", err)
	}
	s.resize(held, 1)
	s.release(held)
	s.refuse(once(b.weighing(2, 3)))
	s.release(other)
	s.hold(once(b.weighing(3, 3))) // every unit came back once
}

// A lease that grew would pass the waiters.
func resizeOnlyLowers(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.weighing(2, 5))
	for _, weight := range []int{3, 6, 0, -1} {
		if err := s.engine.Resize(s.ctx, s.res, held, weight); !errors.Is(err, engine.ErrTooHeavy) {
			s.Errorf("to %d: got error %v, want ErrTooHeavy", weight, err)
		}
	}
	s.resize(held, 2)
	s.refuse(once(b.weighing(4, 5)))
	s.hold(once(b.weighing(3, 5)))
	mutex := s.on("a mutex")
	r := a.request()
	r.Resource = mutex.res
	alone := mutex.hold(r)
	mutex.resize(alone, 1)
	if err := s.engine.Resize(s.ctx, mutex.res, alone, 2); !errors.Is(err, engine.ErrTooHeavy) {
		s.Errorf("a mutex to 2: got error %v, want ErrTooHeavy", err)
	}
}

func resizeByStranger(s *scene) {
	a, b := s.party("a"), s.party("b")
	stranger := engine.Held{ID: a.weighing(1, 3).ID, Token: 1}
	s.wantNotHeld(s.engine.Resize(s.ctx, s.res, stranger, 1), engine.CauseDeleted)
	held := s.hold(a.weighing(3, 3))
	s.wantNotHeld(s.engine.Resize(s.ctx, s.res, stranger, 1), engine.CauseDeleted)
	waiting := b.weighing(3, 3)
	s.wait(waiting, 0)
	s.wantNotHeld(s.engine.Resize(s.ctx, s.res, engine.Held{ID: waiting.ID}, 1), engine.CauseDeleted)
	s.wait(waiting, 0)
	s.release(held)
	s.wantNotHeld(s.engine.Resize(s.ctx, s.res, held, 1), engine.CauseReleased)
	got := b.handed(waiting)
	if err := s.breaks(got.ID); err != nil {
		s.Fatal(err)
	}
	s.wantNotHeld(s.engine.Resize(s.ctx, s.res, got, 1), engine.CauseBroken)
}

// A lease whose time has run out frees all of its weight, not a part.
func resizeOfExpired(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(lasting(short, a.weighing(3, 3)))
	next := b.weighing(3, 3)
	s.wait(next, 0)
	s.passTTL(short)
	s.wantNotHeld(s.engine.Resize(s.ctx, s.res, held, 1), engine.CauseTaken)
	b.granted(next)
}
