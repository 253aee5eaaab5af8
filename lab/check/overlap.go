package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Overlap: at every instant, the total weight of the leases that are relied on is at
// most the capacity. It is used for mutexes, readers and writers, and semaphores.
func Overlap() Check { return Check{"overlap", overlap} }

func overlap(ops []history.Op) []Violation {
	var out []Violation
	for _, group := range byResource(leases(ops)) {
		var present []*lease
		for _, s := range group {
			present = slices.DeleteFunc(present, func(o *lease) bool { return o.end() <= s.start })
			if s.end() <= s.start {
				continue // granted after its trust window
			}
			present = append(present, s)
			if used := weigh(present, s.start); used > s.capacity {
				out = append(out, Violation{"overlap", s.resource, s.start,
					fmt.Sprintf("%d of %d are held: %v", used, s.capacity, present)})
			}
		}
	}
	return out
}

// weigh returns the total weight of the leases present at an instant.
func weigh(present []*lease, at time.Duration) int {
	used := 0
	for _, s := range present {
		w := 0
		for _, p := range s.spans {
			if p.from <= at {
				w = p.weight
			}
		}
		used += w
	}
	return used
}

// Inside: by Enter and Leave alone, the total weight inside the protected section is at
// most the capacity. A lease does not count after it was notified of its loss, after its
// trust window has closed, or after an operator ended it.
func Inside() Check { return Check{"inside", inside} }

func inside(ops []history.Op) []Violation {
	known := map[key]*lease{}
	for _, s := range leases(ops) {
		known[key{s.resource, s.holder}] = s
	}
	var out []Violation
	in := map[string][]*lease{}
	for _, op := range inOrder(ops, history.Enter) {
		s := known[key{op.Resource, op.Holder}]
		if s == nil {
			out = append(out, Violation{"inside", op.Resource, op.Call, op.Client + "/" + op.Holder + " entered without the lock"})
			continue
		}
		here := slices.DeleteFunc(in[s.resource], func(o *lease) bool { return o.end() <= op.Call })
		if s.end() > op.Call {
			here = append(here, s)
		}
		in[s.resource] = here
		if used := weigh(here, op.Call); used > s.capacity {
			out = append(out, Violation{"inside", s.resource, op.Call, fmt.Sprintf("%d of %d are inside: %v", used, s.capacity, here)})
		}
	}
	return out
}

// inOrder returns the operations of some kinds, in the order of their return.
func inOrder(ops []history.Op, kinds ...history.Kind) []history.Op {
	var out []history.Op
	for _, op := range ops {
		if slices.Contains(kinds, op.Kind) {
			out = append(out, op)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Op) int { return int(a.Return - b.Return) })
	return out
}
