package queue_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// Rule: a recallable holder is wanted when the line becomes non-empty and when a request is refused,
// each time anew.
func TestRuleRecall(t *testing.T) {
	try := func(id string) queue.Request {
		r := mutex(id)
		r.Queue = false
		return r
	}
	held := func(holder string) *queue.Queue {
		q := queue.New(params, start)
		q.Acquire(mutex(holder), start)
		return q
	}
	wanted := func(t *testing.T, got queue.Answer, want string) {
		t.Helper()
		if got.Wanted != want {
			t.Errorf("wanted %q, want %q", got.Wanted, want)
		}
	}
	t.Run("the first waiter, not the second, and again after it left", func(t *testing.T) {
		q := held("a~")
		wanted(t, q.Acquire(mutex("b"), start), "a~")
		wanted(t, q.Acquire(mutex("b"), start), "") // it polls
		wanted(t, q.Acquire(mutex("c"), start), "")
		q.Release("b", 0, false, 0, start)
		q.Release("c", 0, false, 0, start)
		wanted(t, q.Acquire(mutex("d"), start), "a~")
	})
	t.Run("again after it was granted anew", func(t *testing.T) {
		q := held("a~")
		q.Acquire(mutex("b"), start)
		q.Release("a~", uint64(start), false, 0, start)
		q.Release("b", 0, false, 0, start)
		q.Acquire(mutex("a2~"), start)
		wanted(t, q.Acquire(mutex("b2"), start), "a2~")
	})
	t.Run("a request that does not wait", func(t *testing.T) {
		q := held("a~")
		wanted(t, q.Acquire(try("b"), start), "a~")
		wanted(t, q.Acquire(try("b"), start), "a~")
	})
	t.Run("not others", func(t *testing.T) {
		wanted(t, held("a").Acquire(mutex("b"), start), "")
		wanted(t, held("a~b").Acquire(try("b"), start), "")
	})
	t.Run("not one that is breaking", func(t *testing.T) {
		q := held("a~")
		q.Break(queue.Break{ID: "a~"}, start)
		wanted(t, q.Acquire(mutex("b"), start), "")
		wanted(t, q.Acquire(try("c"), start), "")
	})
	t.Run("not one that was granted in the same step", func(t *testing.T) {
		q := held("a")
		q.Acquire(mutex("b~"), start)
		r := mutex("c")
		r.Yields = "a"
		wanted(t, q.Acquire(r, start), "")
	})
	t.Run("not one that has expired", func(t *testing.T) {
		wanted(t, held("a~").Acquire(mutex("b"), start+10*sec), "")
	})
	t.Run("not several", func(t *testing.T) {
		q := queue.New(params, start)
		q.Acquire(share("a~", 1, 2), start)
		q.Acquire(share("b~", 1, 2), start)
		wanted(t, q.Acquire(share("c", 1, 2), start), "")
	})
}
