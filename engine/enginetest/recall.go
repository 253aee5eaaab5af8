package enginetest

import (
	"github.com/holdfast-go/holdfast/engine"
)

func recallCases() []testCase {
	return []testCase{
		{"FirstWaiterRecalls", ifRecalled(firstWaiterRecalls)},
		{"RecallAfterAWaiterLeft", ifRecalled(recallAfterAWaiterLeft)},
		{"RefusedRequestRecalls", ifRecalled(refusedRequestRecalls)},
		{"WriterRecallsReaders", ifRecalled(writerRecallsReaders)},
	}
}

// recallable is a request whose lease can be recalled.
func (p *party) recallable() engine.Request {
	r := p.request()
	r.ID += engine.RecallSuffix
	return r
}

// wanted waits for the recall of a lease.
func (p *party) wanted(r engine.Request) {
	p.Helper()
	p.await("recalled", func(w engine.Wakeup) bool {
		if w.Kind != engine.WakeWanted && !isGeneral(w) {
			p.Fatalf("%s got %+v, want a recall of %s", p.who.Name, w, r.ID)
		}
		return w.Kind == engine.WakeWanted && w.ID == r.ID
	})
}

// unwanted checks that no lease of the party was recalled so far.
func (p *party) unwanted() {
	p.Helper()
	p.nothing(isGeneral)
}

// ifRecalled runs a test if the engine recalls leases.
func ifRecalled(run func(*scene)) func(*scene) {
	return func(s *scene) {
		if r, ok := s.engine.(engine.Recaller); ok && r.Recalls() {
			run(s)
		}
	}
}

// A holder is wanted once for those who wait, and again after it was granted anew.
func firstWaiterRecalls(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	for range 3 {
		r, first, second := a.recallable(), b.request(), c.request()
		held := s.hold(r)
		a.unwanted()
		s.wait(first, 0)
		a.wanted(r)
		s.wait(second, 1)
		s.wait(first, 0)
		a.unwanted()
		s.release(held)
		held = b.handed(first)
		s.release(held)
		s.release(c.handed(second))
	}
}

// A waiter that comes when the line has become empty again recalls again.
func recallAfterAWaiterLeft(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := a.recallable()
	held := s.hold(r)
	for range 3 {
		waits := b.request()
		s.wait(waits, 0)
		a.wanted(r)
		s.release(engine.Held{ID: waits.ID})
	}
	s.release(held)
}

// Each request that does not wait recalls, unless the lease is breaking.
func refusedRequestRecalls(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := a.recallable()
	held := s.hold(r)
	for range 2 {
		s.refuse(once(b.request()))
		a.wanted(r)
	}
	if err := s.breaks(r.ID); err != nil {
		s.Fatal(err)
	}
	a.broken(r.ID)
	s.refuse(once(b.request()))
	s.wait(b.request(), 0)
	a.unwanted()
	_ = s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held})
}

// Each recallable reader is wanted for the first writer that waits, not for one that is refused.
func writerRecallsReaders(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	const many = 10
	sharing := func(p *party, weight int) engine.Request {
		r := p.weighing(weight, many)
		r.Kind = engine.KindRW
		return r
	}
	for range 2 {
		ra, rb := sharing(a, 1), sharing(b, 1)
		ra.ID, rb.ID = ra.ID+engine.RecallSuffix, rb.ID+engine.RecallSuffix
		first, second := s.hold(ra), s.hold(rb)
		third := s.hold(sharing(a, 1))
		s.refuse(once(sharing(c, many)))
		a.unwanted()
		b.unwanted()
		writer := sharing(c, many)
		s.wait(writer, 0)
		a.wanted(ra)
		b.wanted(rb)
		behind := sharing(b, 1)
		s.wait(behind, 1)
		a.unwanted()
		for _, h := range []engine.Held{first, second, third} {
			s.release(h)
		}
		s.release(c.handed(writer))
		s.release(b.handed(behind))
	}
}
