package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Batch is a number of traces that TLC checks in one start: of resources with one capacity.
type Batch struct {
	Capacity int
	Ids      int // the most that a trace has
	Traces   []Trace
}

// Batches distributes traces to batches of a size at most.
func Batches(all []Trace, size int) (batches []Batch) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Trace) int {
		return cmp.Or(cmp.Compare(a.Capacity, b.Capacity), cmp.Compare(len(a.ids()), len(b.ids())))
	})
	for _, t := range all {
		last := len(batches) - 1
		if last < 0 || batches[last].Capacity != t.Capacity || len(batches[last].Traces) == size {
			batches = append(batches, Batch{Capacity: t.Capacity})
			last++
		}
		b := &batches[last]
		b.Traces, b.Ids = append(b.Traces, t), max(b.Ids, len(t.ids()))
	}
	return batches
}

// ids numbers the holder IDs of a trace, in the order in which they appear, from 1 on.
func (t Trace) ids() map[string]int {
	ids := map[string]int{}
	note := func(id string) {
		if id != "" && ids[id] == 0 {
			ids[id] = len(ids) + 1
		}
	}
	for _, e := range t.Events {
		note(e.ID)
		note(e.Yields)
		for _, h := range e.Holds {
			note(h.ID)
		}
		for _, id := range e.Line {
			note(id)
		}
	}
	return ids
}

// module returns a module of TLA+ with the traces of a batch.
func (b Batch) module(name string, write func(Trace) string) string {
	var w strings.Builder
	fmt.Fprintf(&w, "---- MODULE %s ----\nEXTENDS Integers\n", name)
	names := make([]string, len(b.Traces))
	for i, t := range b.Traces {
		names[i] = fmt.Sprintf("Trace%d", i+1)
		fmt.Fprintf(&w, "%s == %s\n", names[i], write(t))
	}
	fmt.Fprintf(&w, "Traces == %s\n====\n", tuple(names))
	return w.String()
}

func tuple(of []string) string { return "<<" + strings.Join(of, ", ") + ">>" }

func set(of []string) string { return "{" + strings.Join(of, ", ") + "}" }

func boolean(b bool) string { return strings.ToUpper(fmt.Sprint(b)) }
