package queue

import "container/list"

// A client that dies closes its connections, and so its subscription. If the store sees that,
// a grant to one of its waiters would only delay the others, by ClaimWindow. A client that
// lives may have lost its subscription too. So a waiter is passed only if its client has stopped
// listening since its last request: it keeps its place at the front, and from its next
// request on, which is due within a second, it is granted to whether it listens or not. Only
// resources of capacity 1 have it.

// listens reports whether a wake-up can reach the client of an ID.
func (q *Queue) listens(id string) bool { return q.params.Deaf != nil && !q.params.Deaf(id) }

// gone reports whether the client of a waiter has stopped listening since its last request.
func (q *Queue) gone(w *Waiter) bool {
	return q.capacity == 1 && w.Listens && q.params.Deaf(w.ID)
}

// reachable returns the first live waiter behind a front that is gone which is not gone itself, or the front if
// there is none. It looks at as many waiters as the portion allows, and at no turn.
func (q *Queue) reachable(front *list.Element, caller string, now Time, a *Answer) *Waiter {
	for e := front.Next(); e != nil && a.portion > 0; e = e.Next() {
		w := e.Value.(*Waiter)
		if w.Place != 0 {
			break
		}
		a.portion--
		if w.Seen+q.params.WaiterLife > now && (w.ID == caller || !q.gone(w)) {
			return w
		}
	}
	return front.Value.(*Waiter)
}
