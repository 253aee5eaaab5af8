package virtual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// incident is a fault of a program, from its begin to its end. Only an incident explains that a store was unavailable or
// that a lease was lost.
type incident struct {
	do       Action
	client   string // whose process or links it hit; empty: every client
	resource string // of a break
	from, to time.Duration
}

// aftermath is how long after the end of an incident a client may have trouble: it waits for an answer that was lost, and
// then before it tries again.
const aftermath = readTimeout + 2*time.Second

// call is a round, or another call of a client.
type call struct {
	client, resource string // no resource: of all
	from, to         time.Duration
	err              error
}

// refused reports whether the error of the call is that somebody else has the lease. An unavailable store is another one,
// but not if the end of the call itself cut off its last request, as it does with a poll at that instant.
func (c call) refused() bool {
	if !errors.Is(c.err, holdfast.ErrNotAcquired) {
		return false
	}
	cut := strings.Contains(c.err.Error(), fmt.Sprintf("%v: %v", holdfast.ErrUnavailable, context.DeadlineExceeded))
	return cut || !errors.Is(c.err, holdfast.ErrUnavailable)
}

// incidentLog collects what explains errors, and the errors.
type incidentLog struct {
	mu    sync.Mutex
	all   []incident
	calls []call
	hit   map[Action]int // what the faults did, by fault
}

// called notes a call that began at an instant and ends now.
func (w *simulation) called(p *process, resource string, from time.Duration, err error) {
	w.incidents.mu.Lock()
	defer w.incidents.mu.Unlock()
	w.incidents.calls = append(w.incidents.calls, call{p.name, resource, from, w.rec.Now(), err})
}

// happened notes a fault that began at an instant and ends now.
func (w *simulation) happened(p *process, s Step, from time.Duration) {
	i := incident{do: s.Do, client: p.name, from: from, to: w.rec.Now()}
	switch s.Do {
	case Down, Wipe:
		i.client = ""
	case Jump:
		i.client, i.to = "", i.to+longestJump
	case Break:
		i.client, i.resource = "", s.Name
	case Stop:
		i.from = i.to - s.For // it waited for its point before
	}
	w.incidents.mu.Lock()
	defer w.incidents.mu.Unlock()
	w.incidents.all = append(w.incidents.all, i)
}

// hit counts something that a fault did.
func (w *simulation) hit(a Action) {
	w.incidents.mu.Lock()
	defer w.incidents.mu.Unlock()
	if w.incidents.hit == nil {
		w.incidents.hit = map[Action]int{}
	}
	w.incidents.hit[a]++
}

// explains reports whether the incident explains the error of a call.
func (i incident) explains(c call) bool {
	if i.from > c.to {
		return false
	}
	if c.refused() {
		return true // a lease or a wait that a fault left in a store blocks others for long
	}
	switch {
	case i.to+aftermath < c.from, i.do == Mute, i.do == Twice:
		return false
	case i.do == Break:
		return errors.Is(c.err, holdfast.ErrLost) && (c.resource == "" || c.resource == i.resource)
	}
	return i.client == "" || i.client == c.client
}

// explained reports whether an incident explains the error of a call.
func (l *incidentLog) explained(c call) bool {
	return slices.ContainsFunc(l.all, func(i incident) bool { return i.explains(c) })
}

// mostLinks is how many bounds after the last grant refused calls may still explain each other: each leaves a place behind
// that excludes the next, for a bound.
const mostLinks = 4

// taken returns for each call, which are in the order of their ends, whether another explains that it was refused: one that
// had not ended for long when this one ended, and was granted the lease, or had waited for it and was itself refused for
// such a reason before. A wait of no more time than an attempt may take needs no other.
func taken(calls []call, bound, attempt time.Duration) []bool {
	taken := make([]bool, len(calls))
	granted := make([]time.Duration, len(calls)) // the last instant that explains the call; less than zero: nothing does
	for i, c := range calls {
		granted[i] = -1
		if !errors.Is(c.err, holdfast.ErrNotAcquired) {
			granted[i] = c.to
		}
	}
	for at, c := range calls {
		if !c.refused() {
			continue
		}
		for i, other := range calls {
			waited := i < at && other.from < other.to && granted[i] >= c.to-mostLinks*bound
			if other.resource == c.resource && other.from <= c.to && other.to >= c.to-bound && (waited || !other.refused()) {
				granted[at] = max(granted[at], granted[i])
			}
		}
		taken[at] = granted[at] >= 0 || c.to-c.from <= attempt && errors.Is(c.err, context.DeadlineExceeded)
	}
	return taken
}

// leaves returns how long after a call its lease, or its wait, may exclude others without a fault: a lease that is not
// renewed does so for a margin.
func (w World) leaves() time.Duration {
	if w == Quorum { // waiters retry, without wake-ups from a queue
		return time.Second
	}
	return 400 * time.Millisecond
}

// attempt returns how long an attempt may take that meets no other and no fault.
func (w World) attempt() time.Duration {
	if w == Quorum { // clocks of nodes that differ may cost it ballots, with pauses in between of less than 1 ms, 2 ms and so on
		return 5 * time.Millisecond
	}
	return 0
}

// unexplained returns a violation for each error without a reason. A lease excludes others for up to a bound after its
// call, and an attempt may take so long.
func (l *incidentLog) unexplained(bound, attempt time.Duration) (found []check.Violation) {
	calls := slices.Clone(l.calls)
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Compare(a.to, b.to) })
	for i, taken := range taken(calls, bound, attempt) {
		if c := calls[i]; c.err != nil && !(passing(c.err) && (taken || l.explained(c))) {
			found = append(found, check.Violation{Check: "errors", Resource: c.resource, At: c.to,
				Text: fmt.Sprintf("%s got, without a fault that explains it, in a call from %v on: %v", c.client, c.from, c.err)})
		}
	}
	return found
}

// kept returns a violation for each lease that was lost, or whose release failed, without a reason. A lease that is not
// renewed ends by itself, and nobody waits for the release of one whose round has no time left.
func (w *simulation) kept(ops []history.Op) []check.Violation {
	acquired := map[string]history.Op{}
	for _, op := range ops {
		if op.Kind == history.Acquire && op.Outcome == history.OK {
			acquired[op.Holder] = op
		}
	}
	reason := func(op history.Op) bool {
		s, from := w.steps[op.Holder], acquired[op.Holder]
		return s.Way == NoRenewal && op.Return >= from.Until || op.Kind == history.Release && op.Call >= from.Call+s.Wait ||
			w.incidents.explained(call{op.Client, op.Resource, op.Call - s.TTL, op.Return, holdfast.ErrLost})
	}
	found := check.Kept().Find(slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return op.Kind == history.Lost && reason(op) }))
	for _, op := range ops {
		if op.Kind == history.Release && op.Note != "" && !reason(op) {
			found = append(found, check.Violation{Check: "errors", Resource: op.Resource, At: op.Call,
				Text: fmt.Sprintf("the release of %s failed without a fault that explains it: %s", op.Holder, op.Note)})
		}
	}
	slices.SortStableFunc(found, func(a, b check.Violation) int { return cmp.Compare(a.At, b.At) })
	return found
}
