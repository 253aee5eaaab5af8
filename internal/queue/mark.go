package queue

// MarkID stands for the mark of a resource where Break takes a holder ID.
const MarkID = "mark"

// mark marks the resource as done for a time. A mark that lasts longer stays. While a mark
// lasts no request is granted, so the waiters are dismissed: as many as the portion allows,
// the others by the operations that follow.
func (q *Queue) mark(span, now Time, a *Answer) {
	if span <= 0 {
		return
	}
	q.marked = max(q.marked, now+span)
	q.keep(q.marked)
	q.dismiss(now, a)
}

// dismiss drops the waiters of a marked resource.
func (q *Queue) dismiss(now Time, a *Answer) {
	for e := q.line.Front(); e != nil; e = q.line.Front() {
		if a.portion < messageCost {
			a.More = true
			return
		}
		a.portion -= messageCost
		w := e.Value.(*Waiter)
		q.drop(w.ID)
		a.Dropped, a.Left = append(a.Dropped, w.ID), q.marked-now
	}
}

// unmark ends the mark, for an operator. It reports whether there was one.
func (q *Queue) unmark(now Time) bool {
	if q.marked <= now {
		return false
	}
	q.marked = 0
	return true
}
