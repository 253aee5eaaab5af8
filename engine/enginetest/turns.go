package enginetest

import (
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// ballot is a patient attempt by a ballot, whose turn stands at a place.
func (p *party) ballot(place uint64) engine.Request {
	r := p.request()
	r.Ballot = uint64(time.Now().UnixMicro()) + place // no two alike
	r.Turn = engine.Held{ID: r.ID + "~turn", Token: place}
	return r
}

// anew is the next ballot of an attempt: by another ID, and its turn stays.
func (p *party) anew(r engine.Request) engine.Request {
	r.ID, r.Ballot = p.request().ID, r.Ballot+uint64(long.Microseconds())
	return r
}

// called waits for the wake-up that calls a turn.
func (p *party) called(r engine.Request) {
	p.Helper()
	p.await("called", func(w engine.Wakeup) bool {
		if w.Kind == engine.Resync && w.ID == r.Turn.ID {
			return true
		}
		if !isGeneral(w) {
			p.Fatalf("%s got %+v, want a call of %s", p.who.Name, w, r.Turn.ID)
		}
		return false
	})
}

// uncalled wants that no turn of the party was called so far.
func (p *party) uncalled() {
	p.Helper()
	p.nothing(isGeneral)
}

// isGeneral reports whether a wake-up is a Resync for all waiters.
func isGeneral(w engine.Wakeup) bool { return w.Kind == engine.Resync && w.ID == "" }

func turnsInOrderOfPlaces(s *scene) {
	holder, a, b, c := s.party("holder"), s.party("a"), s.party("b"), s.party("c")
	held := s.hold(holder.request())
	first, second := a.ballot(100), b.ballot(200)
	if got := s.refuse(second); got.Holder.ID != held.ID || got.Position != 0 {
		s.Errorf("got %+v, want holder %s and none ahead", got, held.ID)
	}
	s.refuse(first)
	if got := s.refuse(second); got.Position != 1 {
		s.Errorf("got %+v, want one ahead", got)
	}
	s.release(held)
	a.called(first)
	b.uncalled()
	s.refuse(b.anew(second))
	s.refuse(once(c.request()))
	held = s.hold(a.anew(first))
	b.uncalled()
	s.release(held)
	b.called(second)
	s.hold(b.anew(second))
	s.refuse(once(c.request()))
	a.uncalled() // the calls since then have not called it again
}

func turnIsTakenOut(s *scene) {
	holder, a, b, c := s.party("holder"), s.party("a"), s.party("b"), s.party("c")
	held := s.hold(holder.request())
	first, second := a.ballot(100), b.ballot(200)
	s.refuse(first)
	s.refuse(second)
	s.release(held)
	a.called(first)
	s.release(engine.Held{ID: first.Turn.ID})
	b.called(second)
	s.withdraw(second.Turn.ID)
	s.release(s.hold(once(c.request())))
	held = s.hold(b.anew(second)) // the ID of its ballot was not withdrawn, but it waits no more
	s.refuse(b.anew(second))
	s.release(held)
	s.hold(once(c.request()))
	b.uncalled()
}

func waitersComeBeforeTurns(s *scene) {
	holder, a, b := s.party("holder"), s.party("a"), s.party("b")
	held := s.hold(holder.request())
	turn, plain := a.ballot(100), b.request()
	s.refuse(turn)
	if got := s.acquire(plain); got.Status != engine.Queued {
		s.Fatalf("got %+v, want it queued", got)
	}
	s.release(held)
	held = b.handed(plain)
	a.uncalled()
	s.release(held)
	a.called(turn)
}

func turnsShareCapacity(s *scene) {
	holder, a, b, c := s.party("holder"), s.party("a"), s.party("b"), s.party("c")
	share := func(p *party, weight int, place uint64) engine.Request {
		r := p.ballot(place)
		r.Kind, r.Weight, r.Capacity = engine.KindSemaphore, weight, 3
		return r
	}
	held := s.hold(holder.weighing(2, 3))
	heavy, light, other := share(a, 2, 100), share(b, 1, 200), share(c, 1, 300)
	s.refuse(heavy)
	s.refuse(light) // it would fit, but a heavy one waits before it
	s.refuse(other)
	a.uncalled()
	b.uncalled()
	s.release(held)
	a.called(heavy)
	b.uncalled()
	s.hold(a.anew(heavy))
	b.called(light) // the next one fits as well
	c.uncalled()
	held = s.hold(b.anew(light))
	c.uncalled()
	s.release(held)
	c.called(other)
}

func ballotAtAPlacePasses(s *scene) {
	holder, a, b := s.party("holder"), s.party("a"), s.party("b")
	held := s.hold(holder.request())
	turn := a.ballot(100)
	s.refuse(turn)
	s.release(held)
	a.called(turn)
	earlier, later := b.ballot(99), b.ballot(101)
	earlier.Turn.ID, later.Turn.ID = "", ""
	s.refuse(once(later))
	held = s.hold(once(b.anew(earlier)))
	a.uncalled()
	s.release(held)
	a.called(turn) // once more, since there was a grant meanwhile
}

func deadTurnIsDropped(s *scene) {
	holder, dead, live := s.party("holder"), s.party("dead"), s.party("live")
	held := s.hold(holder.request())
	first, second := dead.ballot(100), live.ballot(200)
	asked := time.Now()
	s.refuse(first)
	s.refuse(second)
	s.release(held)
	dead.called(first)
	called := time.Now()
	live.pollWith(live.anew(second), func(sent time.Time, a engine.Answer) {
		late := sent.Sub(called)
		if a.Status != engine.Busy || a.Next <= 0 && late < engine.WaiterLife/2 || a.Next > engine.WaiterLife {
			s.Fatalf("got %+v, want a time for the next poll, when the dead one is out of the way", a)
		}
		if late > most(engine.WaiterLife) {
			s.Fatalf("a dead turn still counted after %v, want %v", late, engine.WaiterLife)
		}
	})
	if soon := time.Since(asked); soon < engine.WaiterLife/2 {
		s.Errorf("a turn was dropped %v after its request, want %v", soon, engine.WaiterLife)
	}
}

func markSendsTurnsAway(s *scene) {
	holder, a := s.party("holder"), s.party("a")
	held := s.hold(holder.request())
	turn := a.ballot(100)
	s.refuse(turn)
	if err := s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held, Mark: long}); err != nil {
		s.Fatalf("Release: %v", err)
	}
	if w := <-a.wakes; w.Kind != engine.WakeMarked || w.ID != turn.Turn.ID {
		s.Errorf("got %+v, want %s sent away", w, turn.Turn.ID)
	}
}
