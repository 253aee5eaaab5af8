package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Apart reports whether the order of two instants of the history is that of the lock, for what a client waited for.
type Apart func(client string, earlier, later time.Duration) bool

// Starvation: at most most grants to callers that began to wait later precede the grant to a
// waiter. Tokens show which grant was first; if there are none, the returns of the acquires do. The caller chooses
// both by the lock's promise of order and by how long a fault or a stall suspends it.
func Starvation(most int, apart Apart) Check {
	return Check{"starvation", func(ops []history.Op) []Violation { return starvation(ops, most, apart) }}
}

func starvation(ops []history.Op, most int, apart Apart) []Violation {
	var out []Violation
	attempts := pick(ops, history.Acquire)
	for _, w := range attempts {
		if w.Outcome == history.Failed && w.Note != Waited {
			continue // no wait
		}
		before := func(o history.Op) bool {
			if w.Outcome == history.OK && w.Token != 0 && o.Token != 0 {
				return o.Token < w.Token
			}
			return o.Return < returned(w) && apart(w.Client, o.Return, returned(w))
		}
		var passed []string
		for _, o := range attempts {
			if o.Resource == w.Resource && o.Outcome == history.OK && o.Call > w.Call && before(o) && apart(w.Client, w.Call, o.Call) {
				passed = append(passed, fmt.Sprintf("%s/%s at %v", o.Client, o.Holder, o.Call))
			}
		}
		if len(passed) > most {
			out = append(out, Violation{"starvation", w.Resource, w.Call,
				fmt.Sprintf("%s/%s, which waited from %v to %v, was passed by %d later callers: %v", w.Client, w.Holder, w.Call, returned(w), len(passed), passed)})
		}
	}
	return out
}

// Waited is the Note of a failed Acquire that waited until its ctx ended.
const Waited = "waited"

// Deadlock: no caller waits for longer than bound while the resource is free all the
// time. The resource of a dead holder counts as free from the end of its trust window,
// so the bound must include the rest of its TTL.
func Deadlock(bound time.Duration) Check {
	return Check{"deadlock", func(ops []history.Op) []Violation { return deadlock(ops, bound) }}
}

func deadlock(ops []history.Op, bound time.Duration) []Violation {
	free := map[string][]stretch{}
	for _, group := range byResource(leases(ops)) {
		free[group[0].resource] = gaps(group)
	}
	var out []Violation
	for _, op := range pick(ops, history.Acquire) {
		if op.Outcome == history.Failed && op.Note != Waited {
			continue
		}
		stretches, used := free[op.Resource]
		if !used {
			stretches = []stretch{{0, forever}}
		}
		for _, g := range stretches {
			from, to := max(g.from, op.Call), min(g.to, returned(op))
			if to-from > bound && to != forever {
				out = append(out, Violation{"deadlock", op.Resource, from,
					fmt.Sprintf("%s waited from %v to %v while it was free from %v on", op.Client, op.Call, returned(op), g.from)})
			}
		}
	}
	return out
}

// stretch is a time in which the resource is free.
type stretch struct{ from, to time.Duration }

// gaps returns the times between leases.
func gaps(group []*lease) []stretch {
	var out []stretch
	at := time.Duration(0)
	for _, s := range group {
		if s.start > at {
			out = append(out, stretch{at, s.start})
		}
		at = max(at, present(s))
	}
	return append(out, stretch{at, forever})
}

// present returns the end of the time in which a lease excludes others: its release, or
// the end of its window.
func present(s *lease) time.Duration {
	if s.returned != forever {
		return min(s.returned, s.ended)
	}
	return max(s.end(), min(s.until, s.ended))
}

// returned returns the time at which an operation ended. A wait of unknown outcome has
// ended as well, but may still take effect.
func returned(op history.Op) time.Duration { return max(op.Return, op.Call) }

// HandOff: after the instant from, when there are no faults any more, the next waiter
// gets a mutex within bound after its release. So a lost wake-up is found although the
// next poll compensates for it. A waiter is one whose call was apart from the release, as for Starvation.
func HandOff(from, bound time.Duration, apart Apart) Check {
	return Check{"hand-off", func(ops []history.Op) []Violation { return handOff(ops, from, bound, apart) }}
}

func handOff(ops []history.Op, from, bound time.Duration, apart Apart) []Violation {
	var out []Violation
	attempts := pick(ops, history.Acquire)
	for _, r := range pick(ops, history.Release) {
		if r.Outcome != history.OK || r.Call < from {
			continue
		}
		waiting, soonest := false, forever
		for _, a := range attempts {
			if a.Resource == r.Resource && a.Outcome == history.OK && a.Call < r.Call && a.Return >= r.Call {
				waiting, soonest = waiting || apart(a.Client, a.Call, r.Call), min(soonest, a.Return)
			}
		}
		if waiting && soonest > r.Return+bound {
			out = append(out, Violation{"hand-off", r.Resource, r.Call,
				fmt.Sprintf("the next waiter got it %v after %s released it", soonest-r.Return, r.Client)})
		}
	}
	return out
}

func pick(ops []history.Op, kind history.Kind) []history.Op {
	var out []history.Op
	for _, op := range ops {
		if op.Kind == kind {
			out = append(out, op)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Op) int { return int(a.Call - b.Call) })
	return out
}
