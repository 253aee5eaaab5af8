package queue

import "container/list"

// A ballot is one vote of several that decide together, so no queue can grant it by
// itself: it has to be proposed anew when the resource is free. Until then its turn
// waits in the line, by a name that all ballots of one attempt have in common.
//
// Turns stand behind all other waiters, in the order of their places, which the
// proposer chooses. So several queues that were asked in different orders agree on
// who is next. A turn keeps newcomers out as any waiter does, and dies as any waiter
// does; but when it is at the front, and fits, it is called instead of granted: once
// after each grant, since a called turn has as long as it lives to ask again.

// line returns the ID by which a request waits.
func (r Request) line() string {
	if r.Ballot != 0 && r.mayWait() {
		return r.Turn
	}
	return r.ID
}

// mayWait tells whether a request that cannot be granted now is put into the line.
func (r Request) mayWait() bool { return r.Queue && (r.Ballot == 0 || r.Turn != "" && r.Place != 0) }

// first tells whether nobody waits before a request. Only a ballot with a place
// passes anybody: turns whose places are not before its own.
func (q *Queue) first(r Request) bool {
	front := q.line.Front()
	if front == nil {
		return true
	}
	w := front.Value.(*Waiter)
	return r.Ballot != 0 && r.Place != 0 && w.Place != 0 && (w.ID == r.line() || w.Place >= r.Place)
}

// enqueue puts a waiter into the line: before the turns, or a turn in its place.
func (q *Queue) enqueue(w *Waiter) {
	if q.called == w.ID {
		q.called = ""
	}
	behind := q.line.Back()
	for behind != nil && w.before(behind.Value.(*Waiter)) {
		behind = behind.Prev()
	}
	if behind == nil {
		q.waiters[w.ID] = q.line.PushFront(w)
		return
	}
	q.waiters[w.ID] = q.line.InsertAfter(w, behind)
}

// before tells whether a newcomer comes before another waiter; names decide between
// turns with equal places.
func (w *Waiter) before(other *Waiter) bool {
	switch {
	case other.Place == 0:
		return false
	case w.Place != other.Place:
		return w.Place < other.Place
	}
	return w.ID < other.ID
}

// call tells the turn at the front that it can be granted, unless it asks at this
// moment or was called since the last grant.
func (q *Queue) call(w *Waiter, caller string, a *Answer) {
	if w.ID == caller || w.ID == q.called {
		return
	}
	q.called = w.ID
	a.portion -= messageCost
	a.Called = append(a.Called, w.ID)
}

// until is how long a turn should wait before it asks again: until the first deadline, or
// until the front is taken for dead, if it could be granted and does not ask.
func (q *Queue) until(turn string, now Time) Time {
	next := q.next(now)
	front := q.line.Front().Value.(*Waiter)
	if front.ID == turn || front.Place == 0 || q.used+front.Weight > q.capacity {
		return next
	}
	dies := max(0, front.Seen+q.params.WaiterLife-now)
	if next == 0 {
		return dies
	}
	return min(next, dies)
}

// latest is the highest place in the line; 0 if no turn waits.
func (q *Queue) latest() uint64 {
	if e := q.line.Back(); e != nil {
		return e.Value.(*Waiter).Place
	}
	return 0
}

// ahead counts those who wait before an element of the line.
func ahead(e *list.Element) int {
	n := 0
	for e = e.Prev(); e != nil; e = e.Prev() {
		n++
	}
	return n
}
