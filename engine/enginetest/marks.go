package enginetest

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// marking is the same attempt with a mark.
func marking(span time.Duration, r engine.Request) engine.Request {
	r.Mark = span
	return r
}

// done gives a lease back and marks the resource.
func (s *scene) done(h engine.Held, span time.Duration) {
	s.Helper()
	if err := s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: h, Mark: span}); err != nil {
		s.Fatalf("Release with a mark: %v", err)
	}
}

// marked acquires, and wants the answer that the resource is marked for about
// so long.
func (s *scene) marked(r engine.Request, span time.Duration) {
	s.Helper()
	if a := s.acquire(r); a.Status != engine.Marked || a.Next > span || a.Next <= s.least(span) || a.Token != 0 {
		s.Fatalf("got %+v, want it marked for %v", a, span)
	}
}

// sentAway waits for the wake-up about a mark.
func (p *party) sentAway(r engine.Request, span time.Duration) {
	p.Helper()
	limit := time.After(eventTimeout)
	for {
		select {
		case w := <-p.wakes:
			switch {
			case w.Kind == engine.Resync: // it may have been lost
				p.marked(r, span)
				return
			case w.Kind == engine.WakeMarked && w.ID == r.ID && w.TTL > p.least(span) && w.TTL <= span:
				return
			}
			p.Fatalf("%s got %+v, want it sent away for %v", p.who.Name, w, span)
		case <-p.again():
			p.marked(r, span)
			return
		case <-limit:
			p.Fatalf("%s got no wake-up about the mark", p.who.Name)
		}
	}
}

// A mark is of a kind and a capacity: a request for another one would take its
// work for done.
func markKeepsTheKind(s *scene) {
	a, b := s.party("a"), s.party("b")
	s.done(s.hold(a.request()), long)
	other := b.request()
	other.Kind = engine.KindElection
	for _, r := range []engine.Request{other, once(other), b.weighing(1, 3)} {
		if got, err := s.engine.Acquire(s.ctx, r); !errors.Is(err, engine.ErrMismatch) {
			s.Errorf("%+v: got %+v, %v, want ErrMismatch", r, got, err)
		}
	}
	s.marked(b.request(), long)
	s.unmark()
	s.hold(other) // free for another use
}

// left wants the snapshot to show the mark, and so many holders.
func (s *scene) left(span time.Duration, holders int) {
	s.Helper()
	snap := s.snapshot()
	if snap.Marked > span || snap.Marked <= s.least(span) || len(snap.Holders) != holders || len(snap.Waiters) != 0 {
		s.Fatalf("got %+v, want it marked for %v with %d holders and no waiter", snap, span, holders)
	}
}

func markAtTheGrant(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := marking(2*long, a.request())
	held := s.hold(r)
	s.left(2*long, 1)
	s.marked(b.request(), 2*long)
	s.marked(once(b.request()), 2*long)
	s.hold(r) // the holder itself goes on
	if err := s.renew(held, long); err != nil {
		s.Errorf("Renew: %v", err)
	}
	s.release(held)
	s.marked(b.request(), 2*long)
	s.left(2*long, 0)
	if snap := s.snapshot(); snap.Token != held.Token {
		s.Errorf("got %+v, want last token %d", snap, held.Token)
	}
	s.unmark()
	s.done(s.hold(marking(2*long, a.request())), long) // the longer mark stays
	s.marked(b.request(), 2*long)
}

func markByTheRelease(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.request())
	first, second := b.request(), c.request()
	s.wait(first, 0)
	s.wait(second, 1)
	s.done(held, long)
	b.sentAway(first, long)
	c.sentAway(second, long)
	s.marked(first, long)
	s.marked(once(second), long)
	s.left(long, 0)
	s.release(engine.Held{ID: a.request().ID, Token: held.Token}) // changes nothing
	s.left(long, 0)
}

// A copy of the release does not mark again, whatever happened in between.
func markOnce(s *scene) {
	a := s.party("a")
	held := s.hold(a.request())
	s.done(held, long)
	s.done(held, 3*long)
	s.left(long, 0)
	s.unmark()
	s.done(held, long)
	s.hold(a.request())
}

func (s *scene) unmark() {
	s.Helper()
	if err := s.breaks(engine.MarkID); err != nil {
		s.Fatalf("breaking the mark: %v", err)
	}
}

func markOnlyGrows(s *scene) {
	a := s.party("a")
	held := s.hold(marking(2*long, a.request()))
	s.done(held, long)
	s.left(2*long, 0)
	s.unmark()
	held = s.hold(marking(long, a.request()))
	s.done(held, 2*long)
	s.left(2*long, 0)
}

// Only the release of a live lease marks: one who lost it, or never had it, did
// not do the work.
func markNeedsTheLease(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	waiting := b.request()
	s.wait(waiting, 0)
	s.done(engine.Held{ID: waiting.ID}, long) // leaves the queue
	if err := s.breaks(held.ID); err != nil {
		s.Fatal(err)
	}
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held, Mark: long}), engine.CauseBroken)
	if snap := s.snapshot(); snap.Marked != 0 {
		s.Errorf("got %+v, want no mark", snap)
	}
	s.hold(once(b.request()))
}

func markOutlivesBreak(s *scene) {
	a, b := s.party("a"), s.party("b")
	held := s.hold(marking(long, a.request()))
	if err := s.breaks(held.ID); err != nil {
		s.Fatal(err)
	}
	s.marked(b.request(), long)
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}), engine.CauseBroken)
	s.marked(b.request(), long)
	s.unmark()
	s.wantNotHeld(s.breaks(engine.MarkID), engine.CauseDeleted)
	if snap := s.snapshot(); snap.Marked != 0 {
		s.Errorf("got %+v, want no mark", snap)
	}
	s.hold(b.request())
}

func markWithWithdrawal(s *scene) {
	a, b := s.party("a"), s.party("b")
	r := a.request()
	held := s.hold(r)
	for range 2 {
		err := s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held, Withdraw: true, Mark: long})
		if err != nil {
			s.Fatal(err)
		}
	}
	s.wantEnded(r, engine.CauseReleased)
	s.marked(b.request(), long)
}

// The mark of a request that waits begins when it is granted, and sends away
// those behind it.
func markOfWaiter(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	held := s.hold(a.weighing(3, 3))
	next, last := marking(long, b.weighing(1, 3)), c.weighing(1, 3)
	s.wait(next, 0)
	s.wait(last, 1)
	s.release(held)
	b.granted(next)
	c.sentAway(last, long) // although there is room
	s.left(long, 1)
}

// Until the mark ends, not a moment less, and then at once.
func markEnds(s *scene) {
	const span = short / 2
	a, b := s.party("a"), s.party("b")
	start := time.Now()
	held := s.hold(lasting(short/4, marking(span, a.request())))
	r := b.request()
	next := b.poll(r) // the lease expires on the way
	if took := time.Since(start); took < span-time.Millisecond {
		s.Errorf("granted %v after a mark of %v", took, span)
	}
	if next.Token <= held.Token {
		s.Errorf("token %d after %d", next.Token, held.Token)
	}
	if snap := s.snapshot(); snap.Marked != 0 || len(snap.Holders) != 1 {
		s.Errorf("got %+v, want one holder and no mark", snap)
	}
	s.wantNotHeld(s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held, Mark: long}), engine.CauseTaken)
}

// The clock is the one by which leases begin, and it goes on.
func nowIsTheClockOfLeases(s *scene) {
	now := func() time.Time {
		s.Helper()
		t, err := s.engine.Now(s.ctx)
		if err != nil {
			s.Fatalf("Now: %v", err)
		}
		return t
	}
	before := now()
	s.hold(s.party("a").request())
	after := now()
	since := s.snapshot().Holders[0].Since
	if since.Before(before) || since.After(after) {
		s.Errorf("a lease began at %v, which is not between %v and %v", since, before, after)
	}
}

// The list of marks has what is marked, and what set the mark; the list of what is in use has
// neither what is only marked, nor the other way round.
func listMarks(s *scene) {
	lister, ok := s.engine.(engine.MarkLister)
	if !ok {
		return // it may do without
	}
	a, b := s.party("a"), s.party("b")
	held := s.hold(a.request())
	s.done(held, long)
	running := b.request()
	running.Resource.Name = "running"
	s.hold(marking(long, running))
	plain := b.request()
	plain.Resource.Name = "plain"
	s.hold(plain)
	found := map[string]engine.Snapshot{}
	for snap, err := range lister.ListMarks(s.ctx, s.res.Prefix, "*") {
		if err != nil {
			s.Fatal(err)
		}
		found[snap.Resource.Name] = snap
	}
	if by := found[s.res.Name].MarkedBy; by.ID != held.ID || by.Token != held.Token || by.Client.ID != a.who.ID || by.TTL != 0 {
		s.Errorf("marked by %+v, want %+v", by, held)
	}
	if len(found) != 2 || len(found[s.res.Name].Holders) != 0 || len(found["running"].Holders) != 1 || found["running"].MarkedBy.ID != running.ID {
		s.Errorf("got %+v, want the two that are marked", found)
	}
	if used := s.list("*"); !slices.Equal(used, []string{"plain", "running"}) {
		s.Errorf("List found %q, want what is in use", used)
	}
	s.unmark()
	if snap := s.snapshot(); snap.MarkedBy.ID != "" {
		s.Errorf("got %+v, want no mark", snap)
	}
}
