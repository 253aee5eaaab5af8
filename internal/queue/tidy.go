package queue

import "container/list"

// An operation clears up at most its portion. A lease that is reaped and a waiter that is
// checked cost 1, and what needs a wake-up costs messageCost.
const (
	messageCost = 4
	// fewLooks is how many waiters a sweep checks at first.
	fewLooks = 8
	// sweepPause is the least time between two sweeps by polls.
	sweepPause = 100 * Millisecond
	// A waiter that is not at the front is dropped after sweepLives times WaiterLife. With
	// one, a store that was unavailable for a moment would drop all waiters, and the first
	// one to poll would pass the others.
	sweepLives = 3
)

// begin returns an answer with a whole portion.
func (q *Queue) begin() Answer { return Answer{portion: q.params.Portion} }

// Tidy does what every operation does besides its own work, and looks for dead waiters. It is
// called until the answer says that there is no more, and from time to time while a lease is
// held and others wait.
func (q *Queue) Tidy(now Time) Answer {
	a := q.begin()
	q.reap(now, &a)
	q.advance(now, "", &a)
	q.sweep(now, &a)
	a.Status = Done
	return a
}

// reap ends leases whose deadline has passed.
func (q *Queue) reap(now Time, a *Answer) {
	for len(q.byEnd) > 0 && q.byEnd[0].Deadline <= now {
		if a.portion <= 0 {
			a.More = true
			return
		}
		a.portion--
		q.finish(q.byEnd[0], now)
	}
}

// expire ends the lease of one ID whose deadline has passed, if reap has not reached it.
func (q *Queue) expire(id string, now Time, a *Answer) {
	if h := q.holders[id]; a.More && h != nil && h.Deadline <= now {
		q.finish(h, now)
	}
}

func (q *Queue) finish(h *Holder, now Time) {
	q.drop(h.ID)
	if !h.Breaking { // it has a tombstone already
		q.bury(h.ID, Expired, now, now)
	}
}

// advance grants from the front as long as the front fits. The caller's own grant is the answer
// to its request; all others need wake-ups. It drops dead waiters at the front. While there is
// a mark, it dismisses the waiters.
func (q *Queue) advance(now Time, caller string, a *Answer) {
	if q.marked > now {
		q.dismiss(now, a)
		return
	}
	for e := q.line.Front(); e != nil && q.used < q.capacity; e = q.line.Front() {
		if a.portion <= 0 {
			a.More = true
			return
		}
		w := e.Value.(*Waiter)
		if w.Seen+q.params.WaiterLife <= now {
			looked, _, _ := q.clear(nil, a.portion, now-q.params.WaiterLife)
			a.portion -= looked
			continue
		}
		if q.used+w.Weight > q.capacity {
			return // the front keeps its place: no waiter behind it is tried
		}
		if w.Place != 0 {
			q.call(w, caller, a)
			return
		}
		if w.ID != caller && q.gone(w) {
			w = q.reachable(e, caller, now, a)
		}
		a.portion -= messageCost
		q.drop(w.ID)
		ttl := w.TTL
		if w.ID != caller {
			ttl = min(ttl, q.params.ClaimWindow)
		}
		h := q.hold(w.ID, w.Weight, ttl, w.Reserve, 0, w.Reason, now)
		if w.ID != caller {
			a.Grants = append(a.Grants, Grant{ID: w.ID, Token: h.Token, TTL: ttl})
		}
		if w.Mark > 0 { // no other waiter is granted
			q.mark(w.Mark, now, a)
			return
		}
	}
}

// sweep checks a few waiters, beginning behind those of the last sweep, and if one of them is
// dead, as many as the portion allows.
func (q *Queue) sweep(now Time, a *Answer) {
	if q.line.Len() == 0 || a.portion <= 0 {
		return
	}
	past := now - sweepLives*q.params.WaiterLife
	looked, dead, last := q.clear(q.swept, fewLooks, past)
	if dead > 0 {
		looked, dead, last = q.clear(last, a.portion, past)
	}
	q.swept, q.sweptAt = last, now
	if 2*dead >= a.portion {
		a.More, q.sweptAt = true, 0 // most of them were dead, and there may be others
	}
	a.portion -= looked
}

// sweepDue reports whether a poll sweeps.
func (q *Queue) sweepDue(now Time) bool { return q.sweptAt > now || q.sweptAt+sweepPause <= now }

// clear checks up to a number of waiters behind one, or from the front on, and drops those that
// have not polled since a time. last is where to continue: nil, for the front, at the end.
func (q *Queue) clear(after *list.Element, most int, since Time) (looked, dead int, last *list.Element) {
	e := q.line.Front()
	if after != nil {
		e = after.Next()
	}
	for last = after; e != nil && looked < most; looked++ {
		next := e.Next()
		if w := e.Value.(*Waiter); w.Seen <= since {
			q.drop(w.ID)
			dead++
		} else {
			last = e
		}
		e = next
	}
	if looked < most {
		last = nil
	}
	return looked, dead, last
}
