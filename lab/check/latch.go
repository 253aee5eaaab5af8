package check

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Opened is the Note of a Wait that a latch ended before its count was zero.
const Opened = "ended"

// Latches: a latch opens when its count is zero and not before, and it does not end by itself. Each latch of the history is
// set once, with its count as the Value of the Set. A Count that began may have counted, whatever came of it. A wait
// that returned after the instant until is not judged: the store had lost its data.
func Latches(until time.Duration) Check {
	return Check{"latch", func(ops []history.Op) []Violation { return latches(ops, until) }}
}

// Opens: a latch that is open lets each waiter go on within bound of the last Count.
func Opens(bound time.Duration) Check {
	return Check{"opens", func(ops []history.Op) []Violation { return opens(ops, bound) }}
}

// latch is what a history has of one.
type latch struct {
	set    history.Op // its Kind is "" if nobody has set it
	counts []history.Op
	waits  []history.Op
}

func latchesOf(ops []history.Op) map[string]*latch {
	all := map[string]*latch{}
	of := func(op history.Op) *latch {
		if all[op.Resource] == nil {
			all[op.Resource] = &latch{}
		}
		return all[op.Resource]
	}
	for _, op := range inOrder(ops, history.Set, history.Count, history.Wait) {
		switch l := of(op); {
		case op.Kind == history.Set && op.Outcome == history.OK:
			l.set = op
		case op.Kind == history.Count:
			l.counts = append(l.counts, op)
		case op.Kind == history.Wait:
			l.waits = append(l.waits, op)
		}
	}
	return all
}

func latches(ops []history.Op, until time.Duration) (out []Violation) {
	for name, l := range latchesOf(ops) {
		if l.set.Kind == "" {
			continue
		}
		for _, w := range l.waits {
			begun := int64(0)
			for _, c := range l.counts {
				if c.Call <= w.Return && c.Outcome != history.OK { // each is recorded when it begins
					begun++
				}
			}
			switch {
			case w.Call < l.set.Return || w.Return > until:
			case w.Outcome == history.OK && begun < l.set.Value:
				out = append(out, Violation{"latch", name, w.Return, fmt.Sprintf("%s went on when %d of %d had begun to count", w.Client, begun, l.set.Value)})
			case w.Note == Opened:
				out = append(out, Violation{"latch", name, w.Return, fmt.Sprintf("%s was told that the latch ended before its count was zero", w.Client)})
			}
		}
	}
	return out
}

func opens(ops []history.Op, bound time.Duration) (out []Violation) {
	for name, l := range latchesOf(ops) {
		open, counted := time.Duration(0), int64(0)
		for _, c := range l.counts { // in the order of their returns
			if c.Outcome == history.OK && c.Call >= l.set.Return {
				if counted++; counted == l.set.Value {
					open = c.Return
				}
			}
		}
		for _, w := range l.waits {
			if open > 0 && w.Return > max(open, w.Call)+bound {
				out = append(out, Violation{"opens", name, w.Return, fmt.Sprintf("%s waited from %v on, and the count was zero at %v", w.Client, w.Call, open)})
			}
		}
	}
	return out
}
