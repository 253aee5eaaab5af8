package enginetest

import (
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

func causeExpiredThenTaken(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := lasting(short/2, a.request())
	held := s.hold(r)
	s.pass(short/2 + 10*time.Millisecond)
	s.wantNotHeld(s.renew(held, long), engine.CauseExpired)
	s.wantEnded(r, engine.CauseExpired)
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), engine.CauseExpired)
	s.wantNotHeld(s.engine.Break(s.ctx, s.res, held.ID), engine.CauseExpired)
	s.hold(once(b.request()))
	s.wantNotHeld(s.renew(held, long), engine.CauseTaken)
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), engine.CauseTaken)
}

func causeDeleted(s *scene) {
	a := s.party("a")
	unknown := engine.Held{ID: a.request().ID, Token: 7}
	s.wantNotHeld(s.renew(unknown, long), engine.CauseDeleted)
	s.hold(a.request())
	s.wantNotHeld(s.renew(unknown, long), engine.CauseDeleted)
	s.wantNotHeld(s.engine.Break(s.ctx, s.res, unknown.ID), engine.CauseDeleted)
}

func causeReleased(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	s.release(held)
	s.wantNotHeld(s.renew(held, long), engine.CauseReleased)
	s.hold(b.request())
	s.wantNotHeld(s.renew(held, long), engine.CauseReleased)
}

func breakHolder(s *scene) {
	a, b := s.party("a"), s.party("b")
	r, next := a.request(), b.request()
	held := s.hold(r)
	s.wait(next, 0)
	if err := s.engine.Break(s.ctx, s.res, r.ID); err != nil {
		s.Fatal(err)
	}
	a.broken(r.ID)
	if got := b.handed(next); got.Token <= held.Token {
		s.Errorf("token %d after %d", got.Token, held.Token)
	}
	s.wantNotHeld(s.renew(held, long), engine.CauseBroken)
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), engine.CauseBroken)
	s.wantNotHeld(s.engine.Break(s.ctx, s.res, r.ID), engine.CauseBroken)
	s.wantEnded(r, engine.CauseBroken)
}

func breakWaiter(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	r, next := b.request(), c.request()
	s.wait(r, 0)
	s.wait(next, 1)
	if err := s.engine.Break(s.ctx, s.res, r.ID); err != nil {
		s.Fatal(err)
	}
	b.broken(r.ID)
	s.wantEnded(r, engine.CauseBroken)
	s.wait(next, 0)
	s.release(held)
	c.granted(next)
}

// The attempt was given up before the store saw it: the late one is dead on
// arrival.
func withdrawBeforeAcquire(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := a.request()
	s.withdraw(r.ID)
	s.wantEnded(r, engine.CauseReleased)
	s.withdraw(r.ID)
	s.wantEnded(once(r), engine.CauseReleased)
	s.hold(once(b.request()))
	s.wantEnded(r, engine.CauseReleased)
}

func withdrawWaiter(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	r, next := b.request(), c.request()
	s.wait(r, 0)
	s.wait(next, 1)
	s.withdraw(r.ID)
	s.wait(next, 0)
	s.wantEnded(r, engine.CauseReleased)
	s.release(held)
	c.granted(next)
	b.silent()
}

func withdrawHolder(s *scene) {
	a, b := s.party("a"), s.party("b")
	r, next := a.request(), b.request()
	held := s.hold(r)
	s.wait(next, 0)
	s.withdraw(r.ID)
	got := b.handed(next)
	s.wantEnded(r, engine.CauseReleased)
	s.wantNotHeld(s.renew(held, long), engine.CauseReleased)
	s.withdraw(r.ID)
	if err := s.renew(got, long); err != nil {
		s.Errorf("the next holder lost its lease: %v", err)
	}
}
