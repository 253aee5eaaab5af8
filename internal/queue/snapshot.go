package queue

// Snapshot is what an operator sees. It changes nothing.
type Snapshot struct {
	Kind     string
	Capacity int
	Last     uint64
	Marked   Time     // until when it is marked as done; 0 if it is not
	MarkedBy Holder   // of a capacity of 1: the lease that set the mark, without its deadline
	Holders  []Holder // by token
	Waiters  []Waiter // in queue order
	Dead     []Waiter // in queue order: those that have not polled for WaiterLife and are not dropped yet
}

// Snapshot lists live holders and waiters, and dead waiters apart.
func (q *Queue) Snapshot(now Time) Snapshot {
	s := Snapshot{Kind: q.kind, Capacity: q.capacity, Last: q.last}
	if q.marked > now {
		s.Marked = q.marked
		if q.capacity == 1 {
			s.MarkedBy = q.newest
		}
	}
	for e := q.byToken.Front(); e != nil; e = e.Next() {
		if h := e.Value.(*Holder); h.Deadline > now {
			s.Holders = append(s.Holders, *h)
		}
	}
	for e := q.line.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*Waiter); w.Seen+q.params.WaiterLife > now {
			s.Waiters = append(s.Waiters, *w)
		} else {
			s.Dead = append(s.Dead, *w)
		}
	}
	return s
}
