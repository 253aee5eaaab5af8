package enginetest

import (
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

func causeExpiredThenTaken(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := lasting(short/2, a.request())
	held := s.hold(r)
	s.passTTL(short / 2)
	s.wantNotHeld(s.renew(held, long), engine.CauseExpired)
	s.wantEnded(r, engine.CauseExpired)
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), engine.CauseExpired)
	s.wantNotHeld(s.breaks(held.ID), engine.CauseExpired)
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
	s.wantNotHeld(s.breaks(unknown.ID), engine.CauseDeleted)
}

func causeReleased(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	s.release(held)
	s.wantNotHeld(s.renew(held, long), engine.CauseReleased)
	s.hold(b.request())
	s.wantNotHeld(s.renew(held, long), engine.CauseReleased)
}

// A lease that is broken is released by its holder: no other has it beside that
// one, and it cannot be kept.
func breakHolder(s *scene) {
	a, b := s.party("a"), s.party("b")
	r, next := a.request(), b.request()
	held := s.hold(r)
	s.wait(next, 0)
	for range 2 {
		if err := s.breaks(r.ID); err != nil {
			s.Fatal(err)
		}
		a.broken(r.ID)
	}
	s.breaking(held)
	s.refused(r, held, engine.CauseBroken)
	s.wait(next, 0)
	b.silent()
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), engine.CauseBroken)
	if got := b.handed(next); got.Token <= held.Token {
		s.Errorf("token %d after %d", got.Token, held.Token)
	}
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), engine.CauseBroken)
	s.wantNotHeld(s.breaks(r.ID), engine.CauseBroken)
	s.refused(r, held, engine.CauseBroken)
}

// breaking wants a lease in the snapshot, as one that is breaking.
func (s *scene) breaking(held engine.Held) {
	s.Helper()
	snap := s.snapshot()
	if len(snap.Holders) != 1 || snap.Holders[0].ID != held.ID || snap.Holders[0].Token != held.Token || !snap.Holders[0].Breaking {
		s.Fatalf("got %+v, want %s with token %d, breaking", snap, held.ID, held.Token)
	}
}

// refused wants an ID and its lease to be of no use any more.
func (s *scene) refused(r engine.Request, held engine.Held, cause engine.Cause) {
	s.Helper()
	s.wantNotHeld(s.renew(held, long), cause)
	s.wantNotHeld(s.engine.Resize(s.ctx, s.res, held, 1), cause)
	s.wantEnded(r, cause)
	s.wantEnded(once(r), cause)
}

// The same where there is room for others, who are not held up.
func breakOneOfSeveral(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	r, next := a.weighing(2, 3), c.weighing(2, 3)
	held := s.hold(r)
	s.hold(b.weighing(1, 3))
	s.wait(next, 0)
	if err := s.breaks(r.ID); err != nil {
		s.Fatal(err)
	}
	a.broken(r.ID)
	s.refused(r, held, engine.CauseBroken)
	s.wait(next, 0)
	c.silent()
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), engine.CauseBroken)
	c.granted(next)
}

func breakWithoutWaiters(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := a.request()
	held := s.hold(r)
	if err := s.breaks(r.ID); err != nil {
		s.Fatal(err)
	}
	a.broken(r.ID)
	if got := s.refuse(once(b.request())); got.Holder.ID != r.ID || !got.Holder.Breaking && !s.unordered {
		s.Errorf("busy with %+v, want %s, which is breaking", got.Holder, r.ID)
	}
	s.withdraw(r.ID) // gives it back like any other
	s.hold(once(b.request()))
	err := s.renew(held, long)
	gone, ok := errors.AsType[*engine.NotHeldError](err)
	if s.unordered && ok && gone.Cause == engine.CauseBroken {
		return // a node that the release has not reached yet knows of the break alone
	}
	s.wantNotHeld(err, engine.CauseReleased)
}

// The holder may yield it, too.
func breakThenYield(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	next, again := b.request(), a.request()
	s.wait(next, 0)
	if err := s.breaks(held.ID); err != nil {
		s.Fatal(err)
	}
	again.Yields = held
	s.wait(again, 0)
	b.granted(next)
	s.wantNotHeld(s.renew(held, long), engine.CauseBroken)
}

// By force the lease ends in that step, also one that was breaking.
func breakByForce(s *scene) {
	a, b := s.party("a"), s.party("b")
	for _, before := range []bool{false, true} {
		r, next := a.request(), b.request()
		held := s.hold(r)
		s.wait(next, 0)
		if before {
			if err := s.breaks(r.ID); err != nil {
				s.Fatal(err)
			}
			a.broken(r.ID)
		}
		if err := s.engine.Break(s.ctx, s.res, engine.Break{ID: r.ID, Force: true}); err != nil {
			s.Fatal(err)
		}
		a.broken(r.ID)
		got := b.handed(next)
		s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), engine.CauseBroken)
		s.wantNotHeld(s.engine.Break(s.ctx, s.res, engine.Break{ID: r.ID, Force: true}), engine.CauseBroken)
		s.refused(r, held, engine.CauseBroken)
		s.release(got)
	}
}

// At its deadline a lease that is breaking passes on, and ended as broken.
func breakingEndsAtTheDeadline(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := lasting(short, a.request())
	start := time.Now()
	held := s.hold(r)
	if err := s.breaks(r.ID); err != nil {
		s.Fatal(err)
	}
	next := b.poll(b.request())
	if took := time.Since(start); took < short-time.Millisecond {
		s.Errorf("granted %v after a lease of %v", took, short)
	}
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held, Mark: long}), engine.CauseBroken)
	s.refused(r, held, engine.CauseBroken)
	if err := s.renew(next, long); err != nil {
		s.Errorf("the next holder lost its lease: %v", err)
	}
}

func breakWaiter(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	r, next := b.request(), c.request()
	s.wait(r, 0)
	s.wait(next, 1)
	if err := s.breaks(r.ID); err != nil {
		s.Fatal(err)
	}
	b.broken(r.ID)
	s.wantEnded(r, engine.CauseBroken)
	s.wait(next, 0)
	s.release(held)
	c.granted(next)
}

// A holder gets the reason of a break with the wake-up, and if that is lost, with any
// call. A break without a reason does not remove it.
func breakReason(s *scene) {
	for _, shared := range []bool{false, true} {
		a, b := s.party("a"), s.party("b")
		r, next := a.request(), b.request()
		if shared {
			r, next = a.weighing(2, 3), b.weighing(2, 3)
		}
		held := s.hold(r)
		s.wait(next, 0)
		reason := "hängt: \"deploy\"\n " + strings.Repeat("x", 230)
		s.breaksFor(engine.Break{ID: r.ID, Reason: reason})
		a.brokenFor(r.ID, reason)
		s.breaksFor(engine.Break{ID: r.ID})
		s.wantReason(s.renew(held, long), reason)
		s.wantReason(s.engine.Resize(s.ctx, s.res, held, 1), reason)
		_, err := s.engine.Acquire(s.ctx, r)
		s.wantReason(err, reason)
		s.wantReason(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), reason)
		got := b.handed(next)
		s.breaksFor(engine.Break{ID: next.ID, Reason: "one"})
		s.breaksFor(engine.Break{ID: next.ID, Reason: "two", Force: true})
		b.brokenFor(next.ID, "two")
		s.wantReason(s.renew(got, long), "two")
		s.wantReason(s.renew(held, long), reason)
		s.withdraw(r.ID)
		s.withdraw(next.ID)
	}
}

func breakReasonOfWaiter(s *scene) {
	a, b := s.party("a"), s.party("b")
	s.hold(a.request())
	r := b.request()
	s.wait(r, 0)
	s.breaksFor(engine.Break{ID: r.ID, Reason: "why"})
	b.brokenFor(r.ID, "why")
	_, err := s.engine.Acquire(s.ctx, r)
	s.wantReason(err, "why")
}

func (s *scene) breaksFor(b engine.Break) {
	s.Helper()
	if err := s.engine.Break(s.ctx, s.res, b); err != nil {
		s.Fatal(err)
	}
}

// brokenFor waits for the wake-up about an operator's break with a reason.
func (p *party) brokenFor(id, reason string) {
	p.Helper()
	p.await("notified of the break and its reason", func(w engine.Wakeup) bool {
		return w.Kind == engine.WakeBroken && w.ID == id && w.Reason == reason
	})
	p.ended[id] = true
}

// wantReason wants an error that an operator broke the party, with a reason.
func (s *scene) wantReason(err error, want string) {
	s.Helper()
	lost, isLost := errors.AsType[*engine.NotHeldError](err)
	over, isOver := errors.AsType[*engine.EndedError](err)
	switch {
	case isLost && lost.Cause == engine.CauseBroken && lost.Reason == want:
	case isOver && over.Cause == engine.CauseBroken && over.Reason == want:
	default:
		s.Fatalf("got error %v, want broken for %q", err, want)
	}
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
