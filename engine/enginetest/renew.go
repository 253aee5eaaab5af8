package enginetest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

func renewedLeaseLives(s *scene) {
	for range 5 {
		if s.livesWhileRenewed() {
			return
		}
	}
	s.Fatalf("the machine is too busy to renew in %v", short)
}

// livesWhileRenewed renews a lease for two TTLs; then another is refused. It returns
// false if this process was so late that the lease could end.
func (s *scene) livesWhileRenewed() bool {
	s.Helper()
	a, b := s.party("a"), s.party("b")
	start := time.Now()
	held := s.hold(lasting(short, a.request()))
	tick := time.NewTicker(short / 5)
	defer tick.Stop()
	last := start // request since which the lease lives
	for ; time.Since(start) < 2*short; <-tick.C {
		sent := time.Now()
		if err := s.renew(held, short); err != nil {
			if time.Since(last) < short {
				s.Fatalf("after %v, and %v after the last renewal: %v", time.Since(start), time.Since(last), err)
			}
			return false
		}
		last = sent
	}
	r := once(b.request())
	got := s.acquire(r)
	if got.Status == engine.Granted && time.Since(last) >= short {
		s.release(engine.Held{ID: r.ID, Token: got.Token})
		return false
	}
	if got.Status != engine.Busy || got.Holder.Token != held.Token {
		s.Errorf("got %+v, want busy, and the token of the grant, %d", got, held.Token)
	}
	return true
}

func renewNeverShortens(s *scene) {
	a := s.party("a")
	r := a.request()
	held := s.hold(r)
	if err := s.renew(held, short); err != nil {
		s.Fatal(err)
	}
	if again := s.acquire(lasting(short, r)); again.TTL <= s.least(long) {
		s.Errorf("TTL is %v, want about %v", again.TTL, long)
	}
	if snap := s.snapshot(); len(snap.Holders) != 1 || snap.Holders[0].TTL <= s.least(long) {
		s.Errorf("got %+v, want a lease of about %v", snap, long)
	}
}

func renewBatch(s *scene) {
	a := s.party("a")
	if errs := s.engine.Renew(s.ctx, nil); len(errs) != 0 {
		s.Errorf("an empty batch gave %v", errs)
	}
	var batch []engine.Renewal
	for i := range 30 {
		one := s.on(fmt.Sprintf("stock:%d", i))
		r := lasting(long/2, a.request()) // to see the renewal by; no machine stalls for so long
		r.Resource = one.res
		held := one.hold(r)
		if i%3 == 0 {
			one.release(held)
		}
		batch = append(batch, engine.Renewal{Resource: one.res, Held: held, TTL: long})
	}
	errs := s.engine.Renew(s.ctx, batch)
	if len(errs) != len(batch) {
		s.Fatalf("%d results for %d renewals", len(errs), len(batch))
	}
	for i, err := range errs {
		one := s.on(batch[i].Resource.Name)
		if i%3 == 0 {
			one.wantNotHeld(err, engine.CauseReleased)
			continue
		}
		if err != nil {
			s.Errorf("renewal %d: %v", i, err)
		}
		if snap := one.snapshot(); len(snap.Holders) != 1 || snap.Holders[0].TTL <= s.least(long) {
			s.Errorf("got %+v, want a lease of about %v", snap, long)
		}
	}
}

func expiredLeasePassesByPoll(s *scene) {
	a, b := s.party("a"), s.party("b")
	start := time.Now()
	held := s.hold(lasting(short, a.request()))
	next := b.poll(b.request())
	// The store granted a after start, so b's grant cannot be earlier than the
	// TTL later, but for the store's rounding.
	if took := time.Since(start); took < short-time.Millisecond {
		s.Errorf("granted %v after a lease of %v", took, short)
	}
	if next.Token <= held.Token {
		s.Errorf("token %d after %d", next.Token, held.Token)
	}
}

// However leases are renewed, the first of them to end is seen to end.
func renewalHidesNoExpiry(s *scene) {
	a, b, c, d := s.party("a"), s.party("b"), s.party("c"), s.party("d")
	grown := lasting(long/2, a.weighing(1, 3))
	s.hold(grown)
	renewed := s.hold(lasting(long/2, b.weighing(1, 3)))
	dead := s.hold(lasting(short, c.weighing(1, 3)))
	grown.TTL = long
	s.hold(grown)
	if err := s.renew(renewed, long); err != nil {
		s.Fatal(err)
	}
	d.poll(d.weighing(1, 3))
	s.wantNotHeld(s.renew(dead, long), engine.CauseTaken)
}

// A holder that died frees its own share at its own deadline, however long the
// others renew.
func expiredReaderGoesAlone(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	dead := s.hold(lasting(short, a.weighing(1, 2)))
	live := s.hold(b.weighing(1, 2))
	next := c.poll(c.weighing(1, 2))
	if err := s.renew(live, long); err != nil {
		s.Errorf("the live holder: %v", err)
	}
	s.wantNotHeld(s.renew(dead, long), engine.CauseTaken)
	s.release(next)
	s.wantNotHeld(s.renew(dead, long), engine.CauseExpired) // room again
}
