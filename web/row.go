package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// condition is what a resource is like, in a word.
type condition string

// The conditions, the most urgent first.
const (
	isOverdue   condition = "overdue"   // a holder has not renewed when it should have
	isBreaking  condition = "breaking"  // an operator broke a lease that has not ended yet
	isContended condition = "contended" // somebody waits for a holder
	isWaiting   condition = "waiting"   // somebody waits and nobody holds it
	isHeld      condition = "held"
	isMarked    condition = "done" // marked as done
	isFree      condition = "free"
)

// conditions are those of resources in use, the most urgent first.
func conditions() []condition {
	return []condition{isOverdue, isBreaking, isContended, isWaiting, isHeld}
}

// row is a resource with what follows from its snapshot, the store's clock and what was
// seen before.
type row struct {
	holdfast.Snapshot
	sight
	Condition  condition
	Held       time.Duration // how long the longest lease has lasted
	OldestWait time.Duration
	Left       time.Duration // shortest of the TTLs
	urgency    int
	text       string // to search, in lower case
}

func newRow(s holdfast.Snapshot, seen sight, now time.Time) *row {
	r := &row{Snapshot: s, sight: seen, Condition: isFree}
	if s.Marked > 0 {
		r.Condition = isMarked
	}
	var text strings.Builder
	note := func(texts ...string) {
		for _, t := range texts {
			text.WriteString(strings.ToLower(t))
			text.WriteByte(0)
		}
	}
	note(s.Resource)
	for i, h := range s.Holders {
		r.Held = max(r.Held, now.Sub(h.Since))
		if i == 0 || h.TTL < r.Left {
			r.Left = h.TTL
		}
		note(h.Name, h.Host, h.Reason, h.ID)
	}
	for _, w := range s.Waiters {
		r.OldestWait = max(r.OldestWait, now.Sub(w.Since))
		note(w.Name, w.Host, w.Reason, w.ID)
	}
	r.text = text.String()
	switch {
	case slices.ContainsFunc(s.Holders, func(h holdfast.Holder) bool { return h.Breaking }):
		r.Condition = isBreaking
	case slices.ContainsFunc(s.Holders, r.Overdue):
		r.Condition = isOverdue
	case len(s.Waiters) > 0 && len(s.Holders) > 0:
		r.Condition = isContended
	case len(s.Waiters) > 0:
		r.Condition = isWaiting
	case len(s.Holders) > 0:
		r.Condition = isHeld
	}
	r.urgency = slices.Index(conditions(), r.Condition)
	return r
}

// Overdue reports whether a lease should have been renewed before. Those of a latch belong to no
// process and are not renewed.
func (r *row) Overdue(h holdfast.Holder) bool {
	if h.Breaking || r.latch() {
		return false
	}
	return overdue(h.TTL, r.longest[h.ID])
}

func (r *row) latch() bool {
	return r.Kind == string(engine.KindLatch) || r.Kind == string(engine.KindLatchUnits)
}

// Longest returns the highest TTL that was seen of a lease.
func (r *row) Longest(h holdfast.Holder) time.Duration { return r.longest[h.ID] }

// Growth returns by how many the queue has grown of late.
func (r *row) Growth() int { return r.growth }

// Span returns the time in which the queue has grown.
func (r *row) Span() time.Duration { return r.span }

// Changes returns what has happened, the latest first.
func (r *row) Changes() []change { return r.changes }

// First returns the first holder, or nil.
func (r *row) First() *holdfast.Holder {
	if len(r.Holders) == 0 {
		return nil
	}
	return &r.Holders[0]
}

// orders are the orders of rows by name. Equal rows are in the order of their names.
func orders() map[string]func(a, b *row) int {
	return map[string]func(a, b *row) int{
		"": func(a, b *row) int {
			return cmp.Or(cmp.Compare(a.urgency, b.urgency), cmp.Compare(b.OldestWait, a.OldestWait))
		},
		"name":    func(a, b *row) int { return cmp.Compare(a.Resource, b.Resource) },
		"kind":    func(a, b *row) int { return cmp.Compare(a.Kind, b.Kind) },
		"held":    func(a, b *row) int { return cmp.Compare(b.Held, a.Held) },
		"ttl":     func(a, b *row) int { return cmp.Compare(a.ttl(), b.ttl()) },
		"waiters": func(a, b *row) int { return cmp.Compare(len(b.Waiters), len(a.Waiters)) },
		"wait":    func(a, b *row) int { return cmp.Compare(b.OldestWait, a.OldestWait) },
		"growth":  func(a, b *row) int { return cmp.Compare(b.growth, a.growth) },
	}
}

// ttl is for the order: what has no holder is last.
func (r *row) ttl() time.Duration {
	if len(r.Holders) == 0 {
		return 1<<63 - 1
	}
	return r.Left
}

// selectRows returns the rows that match a query, in its order.
func selectRows(all []*row, q listQuery) []*row {
	words := strings.Fields(strings.ToLower(q.Text))
	var out []*row
	for _, r := range all {
		if q.Kind != "" && r.Kind != q.Kind || q.State != "" && r.Condition != condition(q.State) {
			continue
		}
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(r.text, w) }) {
			out = append(out, r)
		}
	}
	order, ok := orders()[q.Sort]
	if !ok {
		order = orders()[""]
	}
	slices.SortFunc(out, func(a, b *row) int { return cmp.Or(order(a, b), cmp.Compare(a.Resource, b.Resource)) })
	return out
}
