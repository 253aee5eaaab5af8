package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// Rule: recallable holders are wanted when a request for the whole capacity is the first to wait, and with a
// capacity of 1 also when one is refused, each time anew.
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
		if strings.Join(got.Wanted, " ") != want {
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
	t.Run("several, for the whole capacity", func(t *testing.T) {
		q := queue.New(params, start)
		for i, id := range []string{"d~", "a~", "b", "c~", "e~"} {
			r := share(id, 1, 5)
			r.TTL -= queue.Time(i / 2)
			q.Acquire(r, start)
		}
		q.Break(queue.Break{ID: "e~"}, start)
		one, all := share("f", 1, 5), share("g", 5, 5)
		wanted(t, q.Acquire(one, start), "")
		q.Release("f", 0, false, 0, start)
		all.Queue = false
		wanted(t, q.Acquire(all, start), "") // it would not be granted if they returned their leases
		all.Queue = true
		wanted(t, q.Acquire(all, start), "c~ a~ d~")
		wanted(t, q.Acquire(share("h", 5, 5), start), "")
	})
	t.Run("of many, those that end first", func(t *testing.T) {
		q := queue.New(params, start)
		var want []string
		for i := range 3 * queue.DefaultPortion {
			r := share(fmt.Sprintf("r%03d~", i), 1, 1000)
			r.TTL -= queue.Time(i * 7 % (3 * queue.DefaultPortion))
			q.Acquire(r, start)
		}
		for i := range 3 * queue.DefaultPortion {
			if i*7%(3*queue.DefaultPortion) >= 2*queue.DefaultPortion {
				want = append(want, fmt.Sprintf("r%03d~", i))
			}
		}
		got := q.Acquire(share("w", 1000, 1000), start).Wanted
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("wanted %v, want %v", got, want)
		}
	})
}
