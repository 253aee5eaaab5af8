package enginetest

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

func (s *scene) peek() engine.Brief {
	s.Helper()
	b, err := s.engine.Peek(s.ctx, s.res)
	if err != nil {
		s.Fatalf("Peek: %v", err)
	}
	return b
}

func peekOfUnused(s *scene) {
	if b := s.peek(); b.Resource != s.res || len(b.Holders) != 0 || b.More || b.Waiting != 0 || b.Token != 0 {
		s.Errorf("got %+v, want nothing but the name", b)
	}
}

// A peek at a resource of capacity 1 shows what the snapshot does, and counts those
// who wait.
func peekOfOneHolder(s *scene) {
	all := s.parties("a", "b", "c")
	held := s.hold(all[0].request())
	s.wait(all[1].request(), 0)
	s.wait(all[2].request(), 1)
	waiting := 2
	if s.unordered {
		waiting = 0
	}
	b := s.peek()
	if b.Resource != s.res || b.Kind != engine.KindMutex || b.Capacity != 1 || b.Token != held.Token || b.More || b.Waiting != waiting {
		s.Errorf("got %+v, want %d waiting", b, waiting)
	}
	if len(b.Holders) != 1 {
		s.Fatalf("got %+v, want one holder", b)
	}
	h := b.Holders[0]
	if h.ID != held.ID || h.Token != held.Token || h.Weight != 1 || h.Client != (engine.Client{ID: all[0].who.ID}) ||
		h.Reason != "reason of a" || h.TTL <= s.least(long) || h.TTL > most(long) || time.Since(h.Since).Abs() > 24*time.Hour {
		s.Errorf("holder is %+v, want %+v", h, held)
	}
}

func peekHidesExpired(s *scene) {
	a := s.party("a")
	election, cond := lasting(short/2, a.request()), lasting(short/2, a.conditional())
	election.Kind = engine.KindElection
	both := []engine.Request{election, cond}
	for _, r := range both {
		on := s.on(string(r.Kind))
		r.Resource = on.res
		on.hold(r)
	}
	s.passTTL(short / 2)
	for _, r := range both {
		if b := s.on(string(r.Kind)).peek(); len(b.Holders) != 0 {
			s.Errorf("%s: got %+v, want no holder", r.Kind, b)
		}
	}
}

// A peek at a mark shows it and who made it.
func peekOfMark(s *scene) {
	r := s.party("a").request()
	r.Mark = long
	s.release(s.hold(r))
	if b := s.peek(); b.Kind != engine.KindMutex || b.Marked <= s.least(long) || b.Marked > long || len(b.Holders) != 0 {
		s.Errorf("got %+v, want a mark of %v", b, long)
	}
}

// conditional is a request to wait for a condition.
func (p *party) conditional() engine.Request {
	r := p.request()
	r.Kind, r.Capacity = engine.KindCond, 1<<20
	return r
}

// A peek at a condition shows the oldest, whoever renewed last, and who follows when
// they are gone.
func peekOfCondition(s *scene) {
	const all = 3 * engine.MaxPeeked
	a := s.party("a")
	var held []engine.Held
	for range all {
		held = append(held, s.hold(lasting(long, a.conditional())))
	}
	for i := range 5 { // the first get the latest deadlines
		if err := s.renew(held[i], 2*long); err != nil {
			s.Fatal(err)
		}
	}
	for len(held) > 0 {
		b := s.peekWants(held[:min(len(held), engine.MaxPeeked)])
		if !b.More && len(held) > engine.MaxPeeked {
			s.Errorf("got %+v of %d holders, want it to say that there are more", b, len(held))
		}
		// The second goes by itself, the first is broken, by force or not.
		if len(held) > 1 {
			s.release(held[1])
			held = slices.Delete(held, 1, 2)
		}
		if err := s.engine.Break(s.ctx, s.res, engine.Break{ID: held[0].ID, Force: len(held)%2 == 0}); err != nil {
			s.Fatal(err)
		}
		held = held[1:]
	}
	s.peekWants(nil) // not the one that is breaking
}

// peekWants wants these holders. A node of a quorum may still show one that others
// have ended.
func (s *scene) peekWants(want []engine.Held) engine.Brief {
	s.Helper()
	for tries := 0; ; tries++ {
		b := s.peek()
		var got []engine.Held
		for _, h := range b.Holders {
			got = append(got, engine.Held{ID: h.ID, Token: h.Token})
		}
		switch {
		case slices.Equal(got, want):
			return b
		case !s.unordered || tries == 100:
			s.Fatalf("got %v, want %v", got, want)
		}
		s.pass(10 * time.Millisecond)
	}
}

// A peek at a resource that many share shows that it is held.
func peekOfShared(s *scene) {
	a := s.party("a")
	held := s.hold(a.weighing(2, 3))
	if b := s.peek(); b.Kind != engine.KindSemaphore || b.Capacity != 3 || len(b.Holders) != 0 || !b.More || b.Token != held.Token {
		s.Errorf("got %+v, want that there are holders", b)
	}
	s.release(held)
	if b := s.peek(); len(b.Holders) != 0 || b.More {
		s.Errorf("got %+v, want no holder", b)
	}
}

// Those that died are passed over, though no operation has ended them.
func peekPassesOverTheDead(s *scene) {
	a := s.party("a")
	for range 2 * engine.MaxPeeked {
		s.hold(lasting(short, a.conditional()))
	}
	var held []engine.Held
	for range 2 {
		held = append(held, s.hold(a.conditional()))
	}
	s.passTTL(short)
	b := s.peek()
	if len(b.Holders) != 2 || b.Holders[0].ID != held[0].ID || b.Holders[1].ID != held[1].ID {
		s.Errorf("got %+v, want %v", b, held)
	}
}
