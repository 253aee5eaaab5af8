package queue_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// Rule: a peek at a condition shows the oldest, whoever renewed, and passes over those
// that have died.
func TestPeekShowsTheOldest(t *testing.T) {
	q := queue.New(params, start)
	wait := func(id string, ttl queue.Time) {
		q.Acquire(queue.Request{ID: id, Kind: queue.OrderedKind, Capacity: 100, Weight: 1, TTL: ttl}, start)
	}
	want := func(now queue.Time, more bool, ids ...string) {
		t.Helper()
		b := q.Peek(2, now)
		var got []string
		for _, h := range b.Holders {
			got = append(got, h.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(ids) || b.More != more {
			t.Errorf("got %v and more %v, want %v and %v", got, b.More, ids, more)
		}
	}
	for i := range 5 {
		wait(fmt.Sprint(i), queue.Time(1+i)*sec)
	}
	want(start, true, "0", "1")
	q.Renew("1", 0, 100*sec, start)
	want(start, true, "0", "1")
	want(start+sec, true, "1", "2")
	q.Release("1", 0, false, 0, start+sec)
	want(start+sec, true, "2", "3")
	want(start+4*sec, false, "4")
	want(start+5*sec, false)
}

// Rule: a peek at a capacity of 1 shows the holder and counts those who wait; at any
// other it only reports whether it is held.
func TestPeekCounts(t *testing.T) {
	q := queue.New(params, start)
	for _, id := range []string{"a", "b", "c"} {
		q.Acquire(mutex(id), start)
	}
	if b := q.Peek(8, start); len(b.Holders) != 1 || b.Holders[0].ID != "a" || b.More || b.Waiting != 2 || b.Last != uint64(start) {
		t.Errorf("got %+v", b)
	}
	q = queue.New(params, start)
	q.Acquire(share("a", 2, 3), start)
	q.Acquire(share("b", 2, 3), start)
	if b := q.Peek(8, start); len(b.Holders) != 0 || !b.More || b.Waiting != 1 || b.Kind != "semaphore" || b.Capacity != 3 {
		t.Errorf("got %+v", b)
	}
	q.Release("a", 0, false, 0, start)
	q.Release("b", 0, false, 0, start)
	if b := q.Peek(8, start); b.More || b.Waiting != 0 {
		t.Errorf("got %+v", b)
	}
}
