package queue

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
)

// A Record is a Queue as plain data, for a store that keeps it as a document. It does not
// contain when the last sweep was, so the next poll of a restored queue sweeps.
type Record struct {
	Kind     string
	Capacity int
	Birth    uint64 // first token given
	Last     uint64 // highest token given or reserved
	Marked   Time   // until when the resource is marked as done
	Newest   Holder // of a capacity of 1: the latest lease, without its deadline; else zero
	Called   string // the turn that was called since the last grant
	Forget   Time   // see Queue.Forgettable

	Holders []Holder // by token
	Waiters []Waiter // in queue order
	Ended   []Tombstone
	Swept   int // how many waiters from the front on the last sweep has passed; not encoded
}

// A Tombstone is how a lease or wait ended, kept until an instant. Records have them in the
// order of their IDs.
type Tombstone struct {
	ID     string
	Cause  Cause // Released: it was withdrawn
	Until  Time
	Reason string // of a break
}

// Record returns the state of a queue.
func (q *Queue) Record() Record {
	s := Record{
		Kind: q.kind, Capacity: q.capacity, Birth: q.birth, Last: q.last,
		Marked: q.marked, Newest: q.newest, Called: q.called, Forget: q.forget,
	}
	for e := q.byToken.Front(); e != nil; e = e.Next() {
		h := *e.Value.(*Holder)
		h.index, h.place = 0, nil
		s.Holders = append(s.Holders, h)
	}
	for e := q.line.Front(); e != nil; e = e.Next() {
		s.Waiters = append(s.Waiters, *e.Value.(*Waiter))
	}
	if q.swept != nil {
		s.Swept = ahead(q.swept) + 1
	}
	for _, id := range slices.Sorted(maps.Keys(q.ended)) {
		e := q.ended[id]
		s.Ended = append(s.Ended, Tombstone{ID: id, Cause: e.cause, Until: e.until, Reason: e.reason})
	}
	return s
}

// Restore returns the queue of a state. The queue does not refer to the slices of the state.
func Restore(p Params, s Record) *Queue {
	q := New(p, 0)
	q.kind, q.capacity, q.birth, q.last = s.Kind, s.Capacity, s.Birth, s.Last
	q.marked, q.newest, q.called, q.forget = s.Marked, s.Newest, s.Called, s.Forget
	for _, h := range s.Holders {
		q.holders[h.ID] = &h
		heap.Push(&q.byEnd, &h)
		h.place = q.byToken.PushBack(&h)
		q.used += h.Weight
	}
	for i, w := range s.Waiters {
		q.waiters[w.ID] = q.line.PushBack(&w)
		if i+1 == s.Swept {
			q.swept = q.line.Back()
		}
	}
	for _, e := range s.Ended {
		q.ended[e.ID] = tombstone{cause: e.Cause, until: e.Until, reason: e.Reason}
	}
	return q
}

// Prune removes the tombstones that are old, and of the others all but the latest few, so that
// a document stays small. An ID whose tombstone is gone counts as released if its token may
// have been given, else as unknown.
func (s *Record) Prune(most int, now Time) {
	s.Ended = slices.DeleteFunc(s.Ended, func(t Tombstone) bool { return t.Until <= now })
	if len(s.Ended) <= most {
		return
	}
	slices.SortFunc(s.Ended, func(a, b Tombstone) int { return cmp.Or(cmp.Compare(b.Until, a.Until), cmp.Compare(a.ID, b.ID)) })
	s.Ended = s.Ended[:most]
	slices.SortFunc(s.Ended, func(a, b Tombstone) int { return cmp.Compare(a.ID, b.ID) })
}
