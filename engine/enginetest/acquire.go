package enginetest

import (
	"github.com/holdfast-go/holdfast/engine"
)

func grantsWhatIsFree(s *scene) {
	a := s.acquire(s.party("a").request())
	if a.Status != engine.Granted || a.Token == 0 || a.Token >= 1<<53 {
		s.Errorf("got %+v, want a grant with a token below 2^53", a)
	}
	if a.TTL <= s.least(long) || a.TTL > long {
		s.Errorf("TTL is %v, want about %v", a.TTL, long)
	}
}

func busyTellsWhoHolds(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	got := s.refuse(once(b.request()))
	h := got.Holder
	if h.ID != held.ID || h.Client != a.who || h.Reason != "reason of a" || h.Weight != 1 || h.Token != held.Token {
		s.Errorf("holder is %+v, want %+v of %+v", h, held, a.who)
	}
	if h.TTL <= s.least(long) || h.TTL > most(long) || got.Next != h.TTL {
		s.Errorf("next is %v, the holder's TTL %v, want both about %v", got.Next, h.TTL, long)
	}
	if got.Waiters != 0 {
		s.Errorf("%d waiters, want none: an attempt that may not queue does not", got.Waiters)
	}
	s.wait(c.request(), 0)
	if got := s.refuse(once(b.request())); got.Waiters != 1 && !s.unordered {
		s.Errorf("%d waiters, want 1", got.Waiters)
	}
}

func queuedTellsPosition(s *scene) {
	p := s.party("a")
	s.hold(p.request())
	for ahead := range 4 {
		s.wait(p.request(), ahead)
	}
	a := s.acquire(p.request())
	if a.Status != engine.Queued || a.Position != 4 || a.Next <= s.least(long) || a.Next > most(long) {
		s.Errorf("got %+v, want position 4 and about %v to the next deadline", a, long)
	}
}

func repeatedAcquireIsOne(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := lasting(short, a.request())
	held := s.hold(r)
	r.TTL = long // counts as a renewal
	again := s.acquire(r)
	if again.Status != engine.Granted || again.Token != held.Token || again.TTL <= s.least(long) {
		s.Fatalf("repeated: %+v, want token %d for %v", again, held.Token, long)
	}
	s.hold(once(r)) // no wait is involved
	if snap := s.snapshot(); len(snap.Holders) != 1 || len(snap.Waiters) != 0 {
		s.Errorf("got %+v, want one holder", snap)
	}
	s.release(held)
	s.hold(once(b.request())) // nothing is left of the copies
}

func repeatedAcquireOfWaiterKeepsPlace(s *scene) {
	p := s.party("a")
	s.hold(p.request())
	first, second := p.request(), p.request()
	s.wait(first, 0)
	s.wait(second, 1)
	s.wait(first, 0)
	s.wait(second, 1)
	if snap := s.snapshot(); len(snap.Waiters) != 2 {
		s.Errorf("got %+v, want two waiters", snap)
	}
}

func repeatedReleaseIsOne(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	next := b.request()
	s.wait(next, 0)
	s.release(held)
	s.release(held)
	got := b.handed(next)
	s.release(held) // has no effect
	if err := s.renew(got, long); err != nil {
		s.Errorf("the next holder lost its lease: %v", err)
	}
	s.release(got)
	s.release(held)
	s.hold(once(c.request()))
	s.release(held)
}

func releaseByStranger(s *scene) {
	a := s.party("a")
	stranger := engine.Held{ID: a.request().ID, Token: 1}
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: stranger}), engine.CauseDeleted)
	held := s.hold(a.request())
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: stranger}), engine.CauseDeleted)
	stranger.Token = held.Token + 1<<40 // never given
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: stranger}), engine.CauseDeleted)
	if err := s.renew(held, long); err != nil {
		s.Errorf("the holder lost its lease: %v", err)
	}
}

func releaseLeavesQueue(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	first, second := b.request(), c.request()
	s.wait(first, 0)
	s.wait(second, 1)
	s.release(engine.Held{ID: first.ID})
	s.wait(second, 0)
	s.release(held)
	c.granted(second)
	b.silent()
}
