package queue_test

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/queue"
)

func (a *audit) acquire(r queue.Request) queue.Answer {
	a.reap()
	if r.Yields != "" {
		a.remove(r.Yields)
	}
	cause, over := a.tombstone(r.ID)
	held, holds := a.holders[r.ID]
	if i := a.place(r.ID); i >= 0 && !over {
		a.line[i].seen = a.now
	}
	got := a.queue.Acquire(r, a.now)
	switch {
	case over:
		a.must(got.Status == queue.Ended && got.Cause == cause && got.Reason == a.reason(r.ID), "%v: got %+v, want ended: %d for %q", r, got, cause, a.reason(r.ID))
		a.granted(got.Grants, nil)
	case holds:
		held.deadline = max(held.deadline, a.now+r.TTL)
		a.holders[r.ID] = held
		a.must(got.Status == queue.Granted && got.Token == held.token && got.TTL == held.deadline-a.now,
			"%v: got %+v, want %+v again", r, got, held)
		a.granted(got.Grants, nil)
	case a.place(r.ID) >= 0:
		a.acquiredAgain(r, got)
	default:
		a.granted(got.Grants, nil)
		a.arrived(r, got)
	}
	a.settled(got)
	a.timed(got)
	return got
}

// acquiredAgain: a waiter polls. Whether it had to be granted now, settled
// checks.
func (a *audit) acquiredAgain(r queue.Request, got queue.Answer) {
	if got.Status == queue.Granted {
		a.granted(got.Grants, &queue.Grant{ID: r.ID, Token: got.Token, TTL: got.TTL})
		return
	}
	a.granted(got.Grants, nil)
	if a.marked > a.now { // by a grant just now
		a.done(r, got)
		return
	}
	a.must(got.Status == queue.Queued && got.Position == a.place(r.ID), "%v: got %+v, the line is %v", r, got, a.line)
}

// done: nobody new is served while the mark lasts, and it is a mark of one kind.
func (a *audit) done(r queue.Request, got queue.Answer) {
	if r.Kind != a.kind || r.Capacity != a.capacity {
		a.must(got.Status == queue.Mismatch, "%v: got %+v, but it is marked as %s of %d", r, got, a.kind, a.capacity)
		return
	}
	a.must(got.Status == queue.Marked && got.Next == a.marked-a.now, "%v: got %+v, but it is marked until %d", r, got, a.marked)
}

// arrived: a newcomer comes when those at the front have been served.
func (a *audit) arrived(r queue.Request, got queue.Answer) {
	if a.marked > a.now {
		a.done(r, got)
		return
	}
	a.marked = 0 // over for good
	unused := len(a.line) == 0 && len(a.holders) == 0
	room := len(a.line) == 0 && (unused || a.used()+r.Weight <= a.capacity)
	want := queue.Granted
	switch {
	case r.Weight > r.Capacity:
		want = queue.TooHeavy
	case !unused && (r.Kind != a.kind || r.Capacity != a.capacity):
		want = queue.Mismatch
	case room && r.Ballot != 0 && r.Ballot <= a.floor():
		want = queue.Outbid
	case room && r.Ballot != 0 && r.Ballot > uint64(a.now+a.params.BallotAhead):
		want = queue.TooFar
	case !room && r.Queue && r.Ballot == 0:
		want = queue.Queued
	case !room:
		want = queue.Busy
	}
	a.must(got.Status == want, "%v: got %+v, want status %d; the line is %v, holders are %v", r, got, want, a.line, a.holders)
	if unused && want != queue.TooHeavy {
		a.kind, a.capacity = r.Kind, r.Capacity
	}
	switch want {
	case queue.Granted:
		a.must(r.Ballot == 0 || got.Token == r.Ballot, "%v: got %+v, want its ballot", r, got)
		a.must(got.TTL == r.TTL, "%v: got %+v, want its TTL", r, got)
		a.hold(queue.Grant{ID: r.ID, Token: got.Token, TTL: got.TTL}, r.Weight, r.Reserve)
		a.mark(r.Mark)
	case queue.Queued:
		a.must(got.Position == len(a.line), "%v: got %+v, the line is %v", r, got, a.line)
		a.line = append(a.line, wait{r.ID, r.Weight, r.TTL, r.Reserve, r.Mark, a.now})
	case queue.Busy:
		a.must(got.Waiters == len(a.line), "%v: got %+v, the line is %v", r, got, a.line)
	case queue.Outbid:
		a.must(got.Last == max(a.last(), uint64(a.now)), "%v: got %+v, want what no clock outruns", r, got)
	}
}

// floor is what a ballot has to be above.
func (a *audit) floor() uint64 {
	return max(0, uint64(a.now-a.params.Retention), a.last())
}

// last is the last token of this state, or 0.
func (a *audit) last() uint64 {
	if a.birth == 0 {
		return 0
	}
	return a.highest
}

// timed: an attempt that was not granted learns when to look again.
func (a *audit) timed(got queue.Answer) {
	if got.Status != queue.Queued && got.Status != queue.Busy {
		return
	}
	var ends []queue.Time
	for _, h := range a.holders {
		ends = append(ends, h.deadline-a.now)
	}
	if len(ends) == 0 {
		a.must(got.Next == 0, "got %+v, but nobody holds", got)
		return
	}
	first := slices.Min(ends)
	a.must(got.Next == first, "got %+v, but the first deadline is in %d", got, first)
	if got.Status == queue.Busy {
		h, ok := a.holders[got.Holder.ID]
		a.must(ok && h.deadline-a.now == first, "got holder %v, want the first to end", got.Holder)
	}
}

// usable returns the lease of an ID, unless it is breaking.
func (a *audit) usable(id string) (lease, bool) {
	h, ok := a.holders[id]
	return h, ok && !h.breaking
}

func (a *audit) renew(id string, token uint64, ttl queue.Time) {
	a.reap()
	held, holds := a.usable(id)
	if holds {
		held.deadline = max(held.deadline, a.now+ttl)
		a.holders[id] = held
	}
	got := a.queue.Renew(id, token, ttl, a.now)
	a.granted(got.Grants, nil)
	if holds {
		a.must(got.Status == queue.Done && got.TTL == held.deadline-a.now, "renew %s: got %+v, want %+v", id, got, held)
	} else {
		a.refused(id, token, got)
	}
	a.settled(got)
}

func (a *audit) release(id string, token uint64, withdraw bool, mark queue.Time) {
	_, held := a.usable(id)
	breaking := a.holders[id].breaking
	had := a.remove(id)
	a.reap()
	if held {
		a.mark(mark)
	}
	got := a.queue.Release(id, token, withdraw, mark, a.now)
	a.granted(got.Grants, nil)
	switch {
	case had && !breaking, withdraw, a.cause(id, token) == queue.Released:
		a.must(got.Status == queue.Done, "release %s: got %+v, want done", id, got)
	default:
		a.refused(id, token, got)
	}
	if withdraw {
		a.end(id, queue.Released)
	}
	a.settled(got)
}

func (a *audit) resize(id string, token uint64, weight int) {
	a.reap()
	held, holds := a.usable(id)
	fits := weight >= 1 && weight <= held.weight
	if holds && fits {
		held.weight = weight
		a.holders[id] = held
	}
	got := a.queue.Resize(id, token, weight, a.now)
	a.granted(got.Grants, nil)
	switch {
	case !holds:
		a.refused(id, token, got)
	case fits:
		a.must(got.Status == queue.Done, "resize %s to %d: got %+v, want done", id, weight, got)
	default:
		a.must(got.Status == queue.TooHeavy, "resize %s to %d: got %+v, want too heavy", id, weight, got)
	}
	a.settled(got)
}

func (a *audit) breaks(b queue.Break) {
	id, force := b.ID, b.Force
	a.reap()
	reason := b.Reason
	if reason == "" {
		reason = a.reason(id)
	}
	held, had := a.holders[id]
	switch {
	case had && !force && !held.breaking:
		held.breaking = true
		a.holders[id] = held
		a.ended[id] = fate{queue.Broken, held.deadline + a.params.Retention, reason}
	case had && !force:
		a.ended[id] = fate{queue.Broken, a.ended[id].until, reason}
	case a.remove(id):
		had = true
		a.ended[id] = fate{queue.Broken, a.now + a.params.Retention, reason}
	}
	if id == queue.MarkID && a.marked > a.now {
		a.marked, had = 0, true
	}
	got := a.queue.Break(b, a.now)
	a.granted(got.Grants, nil)
	if had {
		a.must(got.Status == queue.Done, "break %s: got %+v, want done", id, got)
	} else {
		a.refused(id, 0, got)
	}
	a.settled(got)
}

func (a *audit) refused(id string, token uint64, got queue.Answer) {
	want := a.cause(id, token)
	a.must(got.Status == queue.NotHeld && got.Cause == want && got.Reason == a.reason(id), "%s with token %d: got %+v, want not held: %d for %q", id, token, got, want, a.reason(id))
}

// reason returns the reason in the tombstone of an ID, if it is of a break.
func (a *audit) reason(id string) string {
	if _, ok := a.tombstone(id); !ok {
		return ""
	}
	return a.ended[id].reason
}
