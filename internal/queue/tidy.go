package queue

import "container/list"

// What an operation may clear up is its portion. A lease that is reaped and a
// waiter that is looked at take 1 of it, and what has to be told messageCost.
const (
	messageCost = 4
	// fewLooks is how many waiters a sweep looks at in any case.
	fewLooks = 8
	// sweepPause is the least time between the sweeps of those who ask again.
	sweepPause = 100 * Millisecond
	// sweepLives is after how many lives a waiter is dropped that is not at the
	// front. A store that was away for a moment would otherwise find all of them
	// dead, and let the first that asks again pass.
	sweepLives = 3
)

// begin returns the answer of an operation that has its whole portion before it.
func (q *Queue) begin() Answer { return Answer{portion: q.params.Portion} }

// Tidy does what every operation does besides its own work, and looks for waiters
// that died. It is called until the answer says that there is no more, and now and
// then while a lease is held and others wait.
func (q *Queue) Tidy(now Time) Answer {
	a := q.begin()
	q.reap(now, &a)
	q.advance(now, "", &a)
	q.sweep(now, &a)
	a.Status = Done
	return a
}

// reap ends leases whose deadline has come.
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

// expire ends the lease of one ID whose deadline has come and that reap left.
func (q *Queue) expire(id string, now Time, a *Answer) {
	if h := q.holders[id]; a.More && h != nil && h.Deadline <= now {
		q.finish(h, now)
	}
}

func (q *Queue) finish(h *Holder, now Time) {
	q.drop(h.ID)
	if !h.Breaking { // it has its tombstone
		q.bury(h.ID, Expired, now, now)
	}
}

// advance grants from the front as long as the front fits. The caller's own
// grant is an answer to its request; all others are told by wake-ups. Waiters
// that died are dropped when it meets them. While there is a mark, it sends away those
// who wait.
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
			return // the front keeps its place: nobody behind it is tried
		}
		if w.Place != 0 {
			q.call(w, caller, a)
			return
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
		if w.Mark > 0 { // nobody is served any more
			q.mark(w.Mark, now, a)
			return
		}
	}
}

// sweep looks at a few waiters, beginning behind those that the last sweep has
// looked at, and if there is a dead one among them at as many as the portion allows.
func (q *Queue) sweep(now Time, a *Answer) {
	if q.line.Len() == 0 || a.portion <= 0 {
		return
	}
	past := now - sweepLives*q.params.WaiterLife
	_, dead, last := q.clear(q.swept, fewLooks, past)
	if dead > 0 {
		_, dead, last = q.clear(last, a.portion, past)
	}
	q.swept, q.sweptAt = last, now
	if 2*dead >= a.portion {
		a.More, q.sweptAt = true, 0 // most of them were dead, and there may be others
	}
}

// sweepDue tells whether a waiter that asks again sweeps.
func (q *Queue) sweepDue(now Time) bool { return q.sweptAt > now || q.sweptAt+sweepPause <= now }

// clear looks at so many waiters behind one, or from the front on, and drops those
// that have not asked since. last is where the next look goes on: nil, for the front,
// if the end was reached.
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
