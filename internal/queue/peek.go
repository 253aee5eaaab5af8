package queue

// OrderedKind is the kind of resource whose holders Peek returns in the order of their tokens.
const OrderedKind = "cond"

// Brief is the result of Peek.
type Brief struct {
	Kind     string
	Capacity int
	Last     uint64
	Marked   Time     // until when it is marked as done; 0 if it is not
	Holders  []Holder // by token; of OrderedKind those that are not breaking
	More     bool     // there are others, or were when an operation last looked
	Waiting  int      // length of the queue, the dead included
}

// Peek returns the state in brief and changes nothing. It lists the holder of a capacity of 1,
// and of OrderedKind up to most holders that are not breaking, the oldest first. Its cost does
// not grow with the number of holders and waiters, except for holders that died since the last
// operation.
func (q *Queue) Peek(most int, now Time) Brief {
	b := Brief{Kind: q.kind, Capacity: q.capacity, Last: q.last, Waiting: q.line.Len()}
	if q.marked > now {
		b.Marked = q.marked
	}
	if q.capacity > 1 && q.kind != OrderedKind {
		b.More = q.used > 0
		return b
	}
	for e := q.byToken.Front(); e != nil; e = e.Next() {
		h := e.Value.(*Holder)
		switch {
		case h.Deadline <= now || h.Breaking && q.kind == OrderedKind:
		case len(b.Holders) == most:
			b.More = true
			return b
		default:
			b.Holders = append(b.Holders, *h)
		}
	}
	return b
}
