package queue_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// Rule: a waiter whose client has stopped listening since its last request is passed by the first that
// listens, and keeps its place.
func TestGoneWaiterIsPassed(t *testing.T) {
	deaf := map[string]bool{}
	p := params
	p.Deaf = func(id string) bool { return deaf[id] }
	begin := func(ids ...string) *queue.Queue {
		clear(deaf)
		q := queue.New(p, start)
		for _, id := range ids {
			q.Acquire(mutex(id), start)
		}
		return q
	}
	granted := func(t *testing.T, a queue.Answer, want string) {
		t.Helper()
		if len(a.Grants) != 1 || a.Grants[0].ID != want {
			t.Errorf("granted %+v, want %s", a.Grants, want)
		}
	}
	line := func(q *queue.Queue) (ids []string) {
		for _, w := range q.Snapshot(start).Waiters {
			ids = append(ids, w.ID)
		}
		return ids
	}
	t.Run("it keeps its place", func(t *testing.T) {
		q := begin("a", "b", "c", "d")
		deaf["b"] = true
		granted(t, q.Release("a", 0, false, 0, start), "c")
		if got := line(q); !slices.Equal(got, []string{"b", "d"}) {
			t.Errorf("the line is %v", got)
		}
		deaf["b"] = false
		granted(t, q.Release("c", 0, false, 0, start), "b")
	})
	t.Run("not after it has polled", func(t *testing.T) {
		q := begin("a", "b", "c")
		deaf["b"] = true
		q.Acquire(mutex("b"), start)
		granted(t, q.Release("a", 0, false, 0, start), "b")
	})
	t.Run("not if it never listened", func(t *testing.T) {
		q := begin("a")
		deaf["b"] = true
		q.Acquire(mutex("b"), start)
		q.Acquire(mutex("c"), start)
		granted(t, q.Release("a", 0, false, 0, start), "b")
	})
	t.Run("not by one that is gone or dead", func(t *testing.T) {
		q := begin("a", "b", "c", "d")
		deaf["b"], deaf["c"] = true, true
		granted(t, q.Release("a", 0, false, 0, start), "d")
		q = begin("a", "b", "c")
		deaf["b"], deaf["c"] = true, true
		granted(t, q.Release("a", 0, false, 0, start), "b")
		q = begin("a", "b", "c", "d")
		for _, id := range []string{"b", "d"} {
			q.Acquire(mutex(id), start+2*sec)
		}
		deaf["b"] = true
		granted(t, q.Release("a", 0, false, 0, start+params.WaiterLife), "d")
	})
	t.Run("not by a turn", func(t *testing.T) {
		q := begin("a", "b")
		r := mutex("c1")
		r.Ballot, r.Turn, r.Place = uint64(start+sec), "c", 1
		q.Acquire(r, start)
		deaf["b"] = true
		granted(t, q.Release("a", 0, false, 0, start), "b")
	})
	t.Run("by the one that polls", func(t *testing.T) {
		q := begin("a", "b", "c")
		deaf["b"] = true
		q.Renew("c", 0, sec, start+10*sec-1)
		for _, id := range []string{"b", "c"} {
			deaf[id] = false
			q.Acquire(mutex(id), start+10*sec-1)
		}
		deaf["b"] = true
		if got := q.Acquire(mutex("c"), start+10*sec); got.Status != queue.Granted {
			t.Errorf("got %+v, want granted", got)
		}
	})
	t.Run("not by one behind a portion of those that are gone", func(t *testing.T) {
		var ids []string
		for i := range queue.DefaultPortion + 2 {
			ids = append(ids, fmt.Sprint("w", i))
		}
		last := ids[len(ids)-1]
		gone := func(ids []string) *queue.Queue {
			q := begin(append([]string{"a"}, ids...)...)
			for _, id := range ids[:len(ids)-1] {
				deaf[id] = true
			}
			return q
		}
		granted(t, gone(ids).Release("a", 0, false, 0, start), ids[0])
		granted(t, gone(ids[1:]).Release("a", 0, false, 0, start), last)
	})
	t.Run("not of a semaphore", func(t *testing.T) {
		clear(deaf)
		q := queue.New(p, start)
		for _, id := range []string{"a", "b", "c"} {
			q.Acquire(share(id, 2, 2), start)
		}
		deaf["b"] = true
		granted(t, q.Release("a", 0, false, 0, start), "b")
	})
}
