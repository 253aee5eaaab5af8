package check

import (
	"fmt"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Names of protected values, for Op.Note.
const (
	Counter = "counter" // each write adds one to the value read
	Stock   = "stock"   // each write subtracts one from the value read, down to zero
	Log     = "log"     // each write appends; Value is the length after it
	Pair    = "pair"    // writers set two halves at once; Value of a read is their difference
)

// Updates: no update of a counter or a log is lost: each accepted write is one more than
// the previous one.
func Updates() Check {
	return Check{"updates", func(ops []history.Op) []Violation {
		return steps(ops, "updates", map[string]int64{Counter: 1, Log: 1})
	}}
}

// Sold: no piece of stock is sold twice, and none after the last: each accepted write is
// one less than the previous one, and none is below zero.
func Sold() Check {
	return Check{"sold", func(ops []history.Op) []Violation {
		out := steps(ops, "sold", map[string]int64{Stock: -1})
		for _, op := range inOrder(ops, history.Write) {
			if op.Note == Stock && op.Outcome == history.OK && op.Value < 0 {
				out = append(out, Violation{"sold", op.Resource, op.Return, fmt.Sprintf("%s/%s sold more than the stock: %d left", op.Client, op.Holder, op.Value)})
			}
		}
		return out
	}}
}

// steps finds accepted writes that do not continue the previous one. A write of unknown
// outcome may have happened at any time since, and explains one gap.
func steps(ops []history.Op, check string, by map[string]int64) []Violation {
	type place struct{ resource, note string }
	before := map[place]history.Op{}
	unknown := map[place]int64{}
	var out []Violation
	for _, op := range inOrder(ops, history.Write) {
		step, ok := by[op.Note]
		at := place{op.Resource, op.Note}
		if !ok || op.Outcome == history.Failed {
			continue
		}
		if op.Outcome == history.Unknown {
			unknown[at]++
			continue
		}
		last, any := before[at]
		before[at] = op
		if !any {
			continue
		}
		gap := (op.Value-last.Value)*step - 1
		if gap == 0 {
			continue
		}
		if gap > 0 && gap <= unknown[at] {
			unknown[at] -= gap
			continue
		}
		out = append(out, Violation{check, op.Resource, op.Return,
			fmt.Sprintf("%s/%s wrote %d after %s/%s wrote %d", op.Client, op.Holder, op.Value, last.Client, last.Holder, last.Value)})
	}
	return out
}

// Whole: no reader sees half of a write: the halves of a pair never differ.
func Whole() Check {
	return Check{"whole", func(ops []history.Op) []Violation {
		var out []Violation
		for _, op := range inOrder(ops, history.Read) {
			if op.Note == Pair && op.Outcome == history.OK && op.Value != 0 {
				out = append(out, Violation{"whole", op.Resource, op.Return, fmt.Sprintf("%s/%s read halves that differ by %d", op.Client, op.Holder, op.Value)})
			}
		}
		return out
	}}
}

// Notes of Run operations with a stronger promise than one success a slot.
const (
	// Once: at most one run of a slot begins.
	Once = "once"
)

// Slots: work succeeds at most once a slot. If Note is Once, at most one run of a slot
// begins.
func Slots() Check { return Check{"slots", slots} }

func slots(ops []history.Op) []Violation {
	type slot struct {
		resource string
		value    int64
	}
	done, begun := map[slot]history.Op{}, map[slot]history.Op{}
	var out []Violation
	for _, op := range inOrder(ops, history.Run) {
		at := slot{op.Resource, op.Value}
		if op.Outcome == history.OK {
			if first, twice := done[at]; twice {
				out = append(out, Violation{"slots", op.Resource, op.Return, fmt.Sprintf("slot %d was done by %s/%s and by %s/%s", op.Value, first.Client, first.Holder, op.Client, op.Holder)})
			}
			done[at] = op
		}
		if op.Note == Once {
			if first, twice := begun[at]; twice {
				out = append(out, Violation{"slots", op.Resource, op.Return, fmt.Sprintf("slot %d was begun by %s/%s and by %s/%s", op.Value, first.Client, first.Holder, op.Client, op.Holder)})
			}
			begun[at] = op
		}
	}
	return out
}
