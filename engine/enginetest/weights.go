package enginetest

import (
	"errors"

	"github.com/holdfast-go/holdfast/engine"
)

func weightsShareCapacity(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	two := s.hold(once(a.weighing(2, 3)))
	one := s.hold(once(b.weighing(1, 3)))
	s.refuse(once(c.weighing(1, 3)))
	s.release(one)
	s.refuse(once(c.weighing(2, 3)))
	s.hold(once(c.weighing(1, 3)))
	s.release(two)
	s.hold(once(b.weighing(2, 3)))
}

func heavyRequestIsNotPassed(s *scene) {
	a, b, heavy, light := s.party("a"), s.party("b"), s.party("heavy"), s.party("light")
	first, second := s.hold(a.weighing(1, 3)), s.hold(b.weighing(1, 3))
	all, one := heavy.weighing(3, 3), light.weighing(1, 3)
	s.wait(all, 0)
	s.wait(one, 1) // would fit, but does not pass
	s.refuse(once(a.weighing(1, 3)))
	s.release(first)
	s.wait(one, 1)
	s.release(second)
	got := heavy.handed(all)
	s.wait(one, 0)
	s.release(got)
	light.granted(one)
}

// A writer among readers: readers in a row enter together, no reader passes
// the writer, and it passes none.
func readersEnterTogether(s *scene) {
	const many = 1 << 20
	sharing := func(p *party, weight int) engine.Request {
		r := p.request()
		r.Kind, r.Weight, r.Capacity = engine.KindRW, weight, many
		return r
	}
	w1, w2 := s.party("writer-1"), s.party("writer-2")
	early, late := s.parties("r1", "r2", "r3"), s.party("r4")
	held := s.hold(sharing(w1, many))
	var reading []engine.Request
	for i, p := range early {
		reading = append(reading, sharing(p, 1))
		s.wait(reading[i], i)
	}
	writing, last := sharing(w2, many), sharing(late, 1)
	s.wait(writing, 3)
	s.wait(last, 4)
	s.release(held)
	tokens := held.Token
	var readers []engine.Held
	for i, p := range early {
		h := p.handed(reading[i])
		if h.Token <= tokens {
			s.Errorf("token %d after %d", h.Token, tokens)
		}
		tokens = h.Token
		readers = append(readers, h)
	}
	if snap := s.snapshot(); len(snap.Holders) != 3 || len(snap.Waiters) != 2 {
		s.Errorf("got %+v, want three readers in and two parties waiting", snap)
	}
	for i, h := range readers {
		s.wait(writing, 0)
		s.wait(last, 1)
		s.release(h)
		if i < len(readers)-1 {
			w2.silent()
		}
	}
	got := w2.handed(writing)
	s.wait(last, 0)
	s.release(got)
	late.granted(last)
}

func kindAndCapacityAreFixedInUse(s *scene) {
	a, b := s.party("a"), s.party("b")
	mismatch := func(r engine.Request) {
		s.Helper()
		if _, err := s.engine.Acquire(s.ctx, r); !errors.Is(err, engine.ErrMismatch) {
			s.Errorf("got error %v, want ErrMismatch", err)
		}
	}
	r := a.weighing(1, 3)
	held := s.hold(r)
	mismatch(b.request())
	mismatch(once(b.weighing(1, 4)))
	other := b.weighing(1, 3)
	other.Kind = engine.KindRW
	mismatch(other)
	s.hold(r) // has no effect
	s.release(held)
	s.hold(b.request()) // free for another use
	mismatch(a.weighing(1, 2))
}

func tooHeavy(s *scene) {
	a := s.party("a")
	heavy := func() {
		s.Helper()
		if _, err := s.engine.Acquire(s.ctx, a.weighing(4, 3)); !errors.Is(err, engine.ErrTooHeavy) {
			s.Errorf("got error %v, want ErrTooHeavy", err)
		}
	}
	heavy()
	s.hold(once(a.weighing(3, 3))) // nothing was left behind
	heavy()
}
