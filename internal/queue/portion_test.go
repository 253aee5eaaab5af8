package queue_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// crowd returns a semaphore of which so many leases end at one instant.
func crowd(n int) *queue.Queue {
	q := queue.New(params, start)
	for i := range n {
		q.Acquire(share(fmt.Sprintf("reader.%03d", i), 1, 1000), start)
	}
	return q
}

// One operation ends a portion of the expired leases and says that there are more. A lease that is
// not ended yet cannot be used.
func TestAnOperationEndsAPortion(t *testing.T) {
	const all = queue.DefaultPortion + 36
	end := start + 10*sec
	q := crowd(all)
	for _, more := range []bool{true, false} {
		if a := q.Tidy(end); a.More != more {
			t.Errorf("there is more: %v, want %v", a.More, more)
		}
	}
	last := fmt.Sprintf("reader.%03d", all-1)
	for name, op := range map[string]func(q *queue.Queue) queue.Answer{
		"renew":   func(q *queue.Queue) queue.Answer { return q.Renew(last, 0, sec, end) },
		"resize":  func(q *queue.Queue) queue.Answer { return q.Resize(last, 0, 1, end) },
		"acquire": func(q *queue.Queue) queue.Answer { return q.Acquire(share(last, 1, 1000), end) },
		"break":   func(q *queue.Queue) queue.Answer { return q.Break(queue.Break{ID: last}, end) },
	} {
		if a := op(crowd(all)); a.Cause != queue.Expired || !a.More {
			t.Errorf("%s of a lease that expired: %+v", name, a)
		}
	}
}

// line returns a mutex that is held for long, and its waiters w.00, w.01 and so on.
func line(n int) *queue.Queue {
	q := queue.New(params, start)
	holder := mutex("holder")
	holder.TTL = 1000 * sec
	q.Acquire(holder, start)
	for i := range n {
		q.Acquire(mutex(fmt.Sprintf("w.%02d", i)), start)
	}
	return q
}

// poll polls for all waiters but one that has died.
func poll(q *queue.Queue, n, dead int, now queue.Time) {
	for i := range n {
		if i != dead {
			q.Acquire(mutex(fmt.Sprintf("w.%02d", i)), now)
		}
	}
}

// Sweeps check the waiters in turn, also if the one at which the last sweep ended is gone.
func TestSweepsGoOnWhereTheLastOneEnded(t *testing.T) {
	const dead = 9 // the sweep of the first poll checks eight
	life := params.WaiterLife
	for _, left := range []string{"", "w.07"} {
		q := line(20)
		poll(q, 20, dead, start+5*life/2)
		now := start + 16*life/5
		if left != "" {
			q.Release(left, 0, false, 0, now)
		}
		q.Tidy(now)
		if q.Waits(fmt.Sprintf("w.%02d", dead)) {
			t.Errorf("%q left: the dead waiter behind it is still in the line", left)
		}
	}
}

// A mark dismisses the waiters in portions. One that polls before its turn comes has the answer,
// and needs no wake-up.
func TestPollOfAMarkedResourceLeavesTheLine(t *testing.T) {
	const all, polls = 3 * queue.DefaultPortion, "w.99"
	q := line(100)
	q.Acquire(mutex("w.last"), start)
	q.Release("holder", 0, false, 100*sec, start+sec)
	a := q.Acquire(mutex(polls), start+sec)
	if a.Status != queue.Marked || q.Waits(polls) {
		t.Errorf("the poll: %+v, in the line: %v", a, q.Waits(polls))
	}
	for range all {
		for _, id := range a.Dropped {
			if id == polls {
				t.Error("a wake-up for one that has the answer")
			}
		}
		a = q.Tidy(start + sec)
	}
	if q.Waits("w.last") {
		t.Error("a waiter of a marked resource stays")
	}
}

// turnOf is a ballot that leaves its turn in the line.
func turnOf(id, turn string, place uint64) queue.Request {
	r := mutex(id)
	r.Ballot, r.Turn, r.Place = 1, turn, place
	return r
}

// While others wait for a resource, also if nobody holds it, it keeps its kind.
func TestAResourceWithATurnKeepsItsKind(t *testing.T) {
	q := queue.New(params, start)
	q.Acquire(mutex("holder"), start)
	q.Acquire(turnOf("a", "a.turn", 5), start)
	q.Release("holder", 0, false, 0, start)
	if a := q.Acquire(share("other", 1, 2), start); a.Status != queue.Mismatch {
		t.Errorf("got %+v", a)
	}
}

// Turns of one place are in the order of their IDs, whichever came first.
func TestTurnsOfOnePlaceAreInTheOrderOfTheirIDs(t *testing.T) {
	q := queue.New(params, start)
	q.Acquire(mutex("holder"), start)
	for _, id := range []string{"b", "c", "a"} {
		q.Acquire(turnOf(id, id+".turn", 5), start)
	}
	got := ""
	for _, w := range q.Snapshot(start).Waiters {
		got += w.ID + " "
	}
	if got != "a.turn b.turn c.turn " {
		t.Errorf("the line is %q", got)
	}
}

// Of leases that end together, one that is breaking is the first.
func TestABreakingLeaseIsTheFirstOfThoseThatEndTogether(t *testing.T) {
	q := queue.New(params, start)
	for _, id := range []string{"a", "b", "c"} {
		q.Acquire(share(id, 1, 3), start)
	}
	q.Break(queue.Break{ID: "c"}, start)
	r := share("d", 1, 3)
	r.Queue = false
	if a := q.Acquire(r, start); a.Status != queue.Busy || a.Holder.ID != "c" {
		t.Errorf("got %+v", a)
	}
}
