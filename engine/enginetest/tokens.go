package enginetest

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

func tokensGrow(s *scene) {
	a := s.party("a")
	var last uint64
	for range 100 {
		held := s.hold(a.request())
		if held.Token <= last {
			s.Fatalf("token %d after %d", held.Token, last)
		}
		last = held.Token
		s.release(held)
	}
}

func reservedTokensAreNotGivenAgain(s *scene) {
	const reserve = 10_000_000 // ten seconds' worth, so that the clock does not hide a mistake
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	reserving := func(p *party) engine.Request {
		r := p.request()
		r.Reserve = reserve
		return r
	}
	held := s.hold(reserving(a))
	if snap := s.snapshot(); snap.Token != held.Token+reserve || snap.Holders[0].Token != held.Token {
		s.Errorf("got %+v, want token %d and %d reserved above it", snap, held.Token, reserve)
	}
	again := reserving(b) // reserves when it is granted from the queue, too
	s.wait(again, 0)
	s.release(held)
	next := b.handed(again)
	if next.Token <= held.Token+reserve {
		s.Errorf("token %d is in the range reserved from %d", next.Token, held.Token)
	}
	s.release(next)
	if third := s.hold(c.request()); third.Token <= next.Token+reserve {
		s.Errorf("token %d is in the range reserved from %d", third.Token, next.Token)
	}
}

// proposing is an attempt with a ballot.
func proposing(p *party, ballot uint64) engine.Request {
	r := once(p.request())
	r.Ballot = ballot
	return r
}

func ballotAccepted(s *scene) {
	a, b := s.party("a"), s.party("b")
	first := s.hold(a.request())
	s.release(first)
	ballot := first.Token + 3_600_000_000 // an hour ahead of the clock
	r := proposing(a, ballot)
	held := s.hold(r)
	if held.Token != ballot {
		s.Errorf("token %d, want the ballot %d", held.Token, ballot)
	}
	if again := s.hold(r); again.Token != ballot {
		s.Errorf("repeated: token %d, want %d", again.Token, ballot)
	}
	s.release(held)
	if next := s.hold(b.request()); next.Token <= ballot {
		s.Errorf("token %d after %d", next.Token, ballot)
	}
}

func ballotOutbid(s *scene) {
	a := s.party("a")
	held := s.hold(a.request())
	s.release(held)
	for _, ballot := range []uint64{1, held.Token - 1, held.Token} {
		if got := s.acquire(proposing(a, ballot)); got.Status != engine.Outbid || got.Last < held.Token {
			s.Errorf("ballot %d: got %+v, want outbid by %d", ballot, got, held.Token)
		}
	}
	s.release(s.hold(proposing(a, held.Token+1)))
	// A store that does not know a resource may have forgotten it, so it
	// takes no ballot from long ago.
	r := proposing(a, 1)
	r.Resource.Name = "never used"
	if got := s.acquire(r); got.Status != engine.Outbid || got.Last == 0 {
		s.Errorf("ballot 1 on an unused resource: got %+v, want outbid", got)
	}
	// What it names is not a bound that moves on with the clock: the next attempt,
	// however slow, is not too old again.
	clock, err := s.engine.Now(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	got := s.acquire(r)
	if got.Status != engine.Outbid || got.Last < uint64(clock.UnixMicro()) {
		s.Fatalf("ballot 1 at %d: got %+v, want outbid by the clock", clock.UnixMicro(), got)
	}
	r = proposing(a, got.Last+1)
	r.Resource.Name = "never used"
	s.hold(r)
}

func ballotTooFar(s *scene) {
	a := s.party("a")
	held := s.hold(a.request())
	s.release(held)
	far := held.Token + uint64((engine.MaxBallotAhead + time.Hour).Microseconds())
	if _, err := s.engine.Acquire(s.ctx, proposing(a, far)); !errors.Is(err, engine.ErrBallot) {
		s.Errorf("got error %v, want ErrBallot", err)
	}
	s.hold(proposing(a, held.Token+uint64((engine.MaxBallotAhead-time.Hour).Microseconds())))
}

func ballotNeverQueues(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	r := proposing(b, held.Token+1)
	r.Queue = true
	if got := s.refuse(r); got.Holder.ID != held.ID {
		s.Errorf("got %+v, want holder %s", got, held.ID)
	}
	if snap := s.snapshot(); len(snap.Waiters) != 0 {
		s.Errorf("got %+v, want no waiter", snap)
	}
}
