package queue

import "container/list"

// A ballot is one vote of several that decide together, so a single queue cannot grant it to a
// waiter: it must be proposed again when the resource is free. Until then its turn waits in
// the line, under an ID that all ballots of one attempt share.
//
// Turns are behind all other waiters, in the order of their places, which the proposers
// choose. So several queues that receive requests in different orders agree on which turn is
// next. A turn blocks new requests and dies like any waiter. When it is at the front and fits,
// it is called, not granted: once after each grant, since a called turn may propose as long as
// it lives.

// line returns the ID by which a request waits.
func (r Request) line() string {
	if r.Ballot != 0 && r.mayWait() {
		return r.Turn
	}
	return r.ID
}

// mayWait reports whether a request that cannot be granted now joins the line.
func (r Request) mayWait() bool { return r.Queue && (r.Ballot == 0 || r.Turn != "" && r.Place != 0) }

// first reports whether no waiter is ahead of a request. Only a ballot with a place passes
// waiters: turns whose places are not before its own.
func (q *Queue) first(r Request) bool {
	front := q.line.Front()
	if front == nil {
		return true
	}
	w := front.Value.(*Waiter)
	return r.Ballot != 0 && r.Place != 0 && w.Place != 0 && (w.ID == r.line() || w.Place >= r.Place)
}

// enqueue adds a waiter to the line, before all turns, or a turn at its place.
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

// before reports whether a new waiter goes before another. Turns with equal places are in the
// order of their IDs.
func (w *Waiter) before(other *Waiter) bool {
	switch {
	case other.Place == 0:
		return false
	case w.Place != other.Place:
		return w.Place < other.Place
	}
	return w.ID < other.ID
}

// call calls the turn at the front, since it can be granted, unless it is the caller or was
// called since the last grant.
func (q *Queue) call(w *Waiter, caller string, a *Answer) {
	if w.ID == caller || w.ID == q.called {
		return
	}
	q.called = w.ID
	a.portion -= messageCost
	a.Called = append(a.Called, w.ID)
}

// until returns how long a turn should wait before it polls: until the first deadline, or
// until the front counts as dead, if the front could be granted but does not propose.
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

// latest returns the highest place in the line, or 0 if no turn waits.
func (q *Queue) latest() uint64 {
	if e := q.line.Back(); e != nil {
		return e.Value.(*Waiter).Place
	}
	return 0
}

// ahead counts the waiters before an element of the line.
func ahead(e *list.Element) int {
	n := 0
	for e = e.Prev(); e != nil; e = e.Prev() {
		n++
	}
	return n
}
