package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

const never = time.Duration(1<<63 - 1)

// lease is a grant of the store: what the history shows of it.
type lease struct {
	client, holder   string
	shared           string // history.Op.Shared
	token            uint64
	weight, capacity int
	called, returned time.Duration // it was granted at an instant from called to returned
	lowered          []lowering
	// end is the earliest instant at which the store may have ended it. If it was granted
	// later than that, it may have ended at once.
	end time.Duration
}

// lowering is a lower weight from an instant on.
type lowering struct {
	at     time.Duration
	weight int
}

func (l *lease) String() string {
	return fmt.Sprintf("%s/%s with token %d", l.client, l.holder, l.token)
}

// weighs returns the weight at an instant after the grant and before the end.
func (l *lease) weighs(at time.Duration) int {
	w := l.weight
	for _, o := range l.lowered {
		if o.at <= at {
			w = min(w, o.weight)
		}
	}
	return w
}

// sheds returns the next instant at which the lease may weigh less.
func (l *lease) sheds(after time.Duration) time.Duration {
	next := never
	if l.end > after {
		next = l.end
	}
	for _, o := range l.lowered {
		if o.at > after {
			next = min(next, o.at)
		}
	}
	return next
}

// leases returns the leases of a history of one resource. A hand-off of a lease that an
// operator had ended before is not a grant of the store, and is left out.
func leases(part []history.Op, ttl time.Duration) []*lease {
	byHolder := map[string]*lease{}
	var all []*lease
	for _, op := range part {
		if op.Kind == history.Acquire && op.Outcome == history.OK {
			l := &lease{client: op.Client, holder: op.Holder, shared: op.Shared, token: op.Token, weight: max(op.Weight, 1), capacity: max(op.Capacity, 1),
				called: op.Call, returned: op.Return, end: windowEnd(op, ttl)}
			byHolder[op.Holder] = l
			all = append(all, l)
		}
	}
	for _, op := range part { // the end of the last window, before what ends a lease sooner
		if l := byHolder[op.Holder]; l != nil && op.Kind == history.Renew {
			if op.Weight > 0 {
				l.lowered = append(l.lowered, lowering{max(op.Call, l.returned), op.Weight}) // only a holder lowers
			} else if op.Outcome == history.OK {
				l.end = max(l.end, windowEnd(op, ttl))
			}
		}
	}
	unlawful := map[*lease]bool{}
	for _, op := range part {
		l := byHolder[op.Holder]
		if l == nil || op.Kind != history.Release && op.Kind != history.Lost {
			continue
		}
		operator := op.Kind == history.Release && op.Client != l.client
		if operator && op.Call <= l.returned {
			unlawful[l] = true
		}
		if operator || op.Kind == history.Lost || op.Outcome != history.Failed {
			l.end = min(l.end, op.Call)
		}
	}
	return merge(slices.DeleteFunc(all, func(l *lease) bool { return unlawful[l] }), part)
}

// merge makes one lease of those that readers of one client share: it was granted before the first of them
// returned, and excludes others until the last of them has ended. A reader that gave up may have requested it.
func merge(all []*lease, part []history.Op) (out []*lease) {
	type share struct {
		client, id string
		token      uint64
	}
	first := map[share]*lease{}
	for _, l := range all {
		of := share{l.client, l.shared, l.token}
		switch m := first[of]; {
		case l.shared == "" || l.weight != 1 || l.capacity == 1:
			out = append(out, l)
		case m == nil:
			first[of] = l
			out = append(out, l)
		default:
			m.called, m.returned, m.end = min(m.called, l.called), min(m.returned, l.returned), max(m.end, l.end)
		}
	}
	for _, m := range first {
		m.called = requested(m, part)
	}
	return out
}

// requested returns when a shared lease may have been requested first: by the call of a reader of the client that gave
// up, after it had waited together with a reader who took over its request.
func requested(m *lease, part []history.Op) time.Duration {
	at := m.called
	for again := true; again; {
		again = false
		for _, op := range part {
			if op.Kind == history.Acquire && op.Outcome == history.Failed && op.Note == check.Waited && op.Client == m.client &&
				max(op.Weight, 1) == 1 && op.Call < at && op.Return >= at {
				at, again = op.Call, true
			}
		}
	}
	return at
}

// windowEnd returns the time until which an acquire or renewal certainly excludes others.
func windowEnd(op history.Op, ttl time.Duration) time.Duration {
	switch {
	case op.Until != 0:
		return op.Until
	case ttl > 0:
		return op.Call + ttl
	}
	return never
}
