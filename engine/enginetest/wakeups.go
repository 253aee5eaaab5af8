package enginetest

import (
	"github.com/holdfast-go/holdfast/engine"
)

// The lease goes back and forth by wake-ups alone: one that was lost would cost
// the whole timeout.
func eachGrantIsDelivered(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	for range 200 {
		r := b.request()
		s.wait(r, 0)
		s.release(held)
		held = b.handed(r)
		a, b = b, a
	}
}

// Two applications may share a store, and by chance a client ID.
func wakeupsStayWithinPrefix(s *scene) {
	other := newScene(s.TB, s.engine)
	a, b := s.party("a"), s.party("b")
	foreign := make(chan engine.Wakeup, 16)
	l, err := s.engine.Listen(s.ctx, other.res.Prefix, b.who.ID, func(w engine.Wakeup) { foreign <- w })
	if err != nil {
		s.Fatal(err)
	}
	held := s.hold(a.request())
	r := b.request()
	s.wait(r, 0)
	s.release(held)
	b.granted(r)
	if err := l.Close(); err != nil {
		s.Fatal(err)
	}
	close(foreign)
	for w := range foreign {
		if w.Kind != engine.Resync {
			s.Errorf("got %+v below another prefix", w)
		}
	}
}

func closedListenerIsSilent(s *scene) {
	a, b, last := s.party("a"), s.party("b"), s.party("last")
	b.who.ID += "-closed"
	got := make(chan engine.Wakeup, 16)
	l, err := s.engine.Listen(s.ctx, s.res.Prefix, b.who.ID, func(w engine.Wakeup) { got <- w })
	if err != nil {
		s.Fatal(err)
	}
	held := s.hold(a.request())
	r, next := b.request(), last.request()
	s.wait(r, 0)
	s.wait(next, 1)
	if err := l.Close(); err != nil {
		s.Fatal(err)
	}
	close(got) // a deliver from now on panics
	s.release(held)
	// The next waiter may pass one that has stopped listening. The grant itself depends on no listener.
	if a := s.acquire(r); a.Status == engine.Granted {
		s.release(engine.Held{ID: r.ID, Token: a.Token})
		last.granted(next)
	} else {
		s.release(engine.Held{ID: next.ID, Token: last.granted(next).Token})
		s.hold(r)
	}
	for w := range got {
		if w.Kind != engine.Resync {
			s.Errorf("got %+v before there was one to send", w)
		}
	}
}

func leaveKeepsLeases(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	r := b.request()
	s.wait(r, 0)
	s.engine.Leave(a.who.ID)
	s.engine.Leave("nobody")
	if snap := s.snapshot(); len(snap.Holders) != 1 || snap.Holders[0].ID != held.ID {
		s.Errorf("got %+v, want holder %s", snap, held.ID)
	}
	if err := s.renew(held, long); err != nil {
		s.Errorf("a lease that outlives its client: %v", err)
	}
	s.release(held)
	b.granted(r)
}
