// Package check finds violations in recorded histories. A check depends on the promises
// of a lock and on the recorded operations, not on the injected faults. The code that
// injects the faults selects the checks, because it determines which promises hold.
//
// # What a history must contain
//
//   - A lease is the time in which a client holds a lock: the operations of one
//     Resource with the same Holder. It begins at the Return of an Acquire that is OK.
//   - A holder stops relying on its lease at the first of: the Call of a Release,
//     a Lost, a Leave, and the latest Until of its Acquire or of a Renew. The death
//     of a client is recorded as a Leave.
//   - A Release of a Holder by another Client is an operator's: from its Call on,
//     the lease is promised only fencing, not exclusion. If the Release is OK, the lease
//     has ended at its Return; if its outcome is unknown, the lease may continue.
//   - A Renew with a Weight lowers the weight of the lease from its Call on.
//   - On the protected side, operations are ordered by their Return, and by their
//     position in the history if that is equal. Note distinguishes values of one
//     Resource. Read and Write carry the Token presented; if they are Failed, they were
//     refused. Until is the end of the trust window, read from the lock at the same
//     moment as its validity; 0 if it was not read.
package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Violation is a promise that was not kept.
type Violation struct {
	Check    string        `json:"check"` // name of the check that found it
	Resource string        `json:"resource,omitempty"`
	At       time.Duration `json:"at"`
	Text     string        `json:"text"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s at %v: %s", v.Check, v.Resource, v.At, v.Text)
}

// Check looks for violations of one promise.
type Check struct {
	// Name is the Check of its Violations.
	Name string
	// Find returns the violations in a history, in order of time.
	Find func([]history.Op) []Violation
}

// Run returns the violations found by all checks.
func Run(ops []history.Op, checks ...Check) []Violation {
	var all []Violation
	for _, c := range checks {
		all = append(all, c.Find(ops)...)
	}
	return all
}

// forever is the end of a lease whose end is not recorded.
const forever = time.Duration(1<<63 - 1)

// lease is the time in which a client holds a resource.
type lease struct {
	client, resource, holder string
	shared                   string // Op.Shared
	token                    uint64
	capacity                 int
	call, start              time.Duration // Call and Return of the acquire
	spans                    []span        // one for each weight, in order of time
	until                    time.Duration // latest end of the trust window; 0: none
	notified                 time.Duration // first Release, Lost or Leave; forever: none
	lost                     bool          // it was a Lost
	returned                 time.Duration // when the lock confirmed its Release; forever: never
	broken                   time.Duration // earliest time at which an operator may have ended it; forever: never
	ended                    time.Duration // time at which an operator had certainly ended it; forever: never
}

// span is a time with one weight.
type span struct {
	from   time.Duration
	weight int
}

// end returns the time at which the holder stops relying on the lease.
func (s *lease) end() time.Duration {
	end := min(s.notified, s.broken)
	if s.until != 0 {
		end = min(end, s.until)
	}
	return end
}

func (s *lease) String() string {
	return fmt.Sprintf("%s/%s (token %d, %v to %v)", s.client, s.holder, s.token, s.start, s.end())
}

// key identifies the operations of a lease.
type key struct{ resource, holder string }

// leases returns the leases of a history, in the order of their start.
func leases(ops []history.Op) []*lease {
	byKey := map[key]*lease{}
	var all []*lease
	for _, op := range ops {
		if op.Kind != history.Acquire || op.Outcome != history.OK {
			continue
		}
		s := &lease{
			client: op.Client, resource: op.Resource, holder: op.Holder, shared: op.Shared, token: op.Token,
			capacity: max(op.Capacity, 1), call: op.Call, start: op.Return,
			spans: []span{{op.Return, max(op.Weight, 1)}},
			until: op.Until, notified: forever, broken: forever, ended: forever, returned: forever,
		}
		byKey[key{op.Resource, op.Holder}] = s
		all = append(all, s)
	}
	for _, op := range ops {
		if s := byKey[key{op.Resource, op.Holder}]; s != nil {
			s.follow(op)
		}
	}
	slices.SortStableFunc(all, func(a, b *lease) int { return int(a.start - b.start) })
	return all
}

// follow applies an operation to the lease.
func (s *lease) follow(op history.Op) {
	switch op.Kind {
	case history.Renew:
		if op.Outcome == history.OK && op.Until != 0 {
			s.until = max(s.until, op.Until)
		}
		if op.Weight > 0 {
			s.spans = append(s.spans, span{op.Call, op.Weight})
		}
	case history.Lost:
		if op.Call < s.notified {
			s.notified, s.lost = op.Call, true
		}
	case history.Release:
		if op.Client != s.client {
			s.broken = min(s.broken, op.Call)
			if op.Outcome == history.OK {
				s.ended = min(s.ended, op.Return)
			}
			return
		}
		if op.Outcome == history.OK {
			s.returned = min(s.returned, op.Return)
		}
		if op.Call < s.notified {
			s.notified, s.lost = op.Call, false
		}
	case history.Leave:
		if op.Call < s.notified {
			s.notified, s.lost = op.Call, false
		}
	}
}

// byResource groups leases by resource, in the order of first use.
func byResource(all []*lease) [][]*lease {
	index := map[string]int{}
	var groups [][]*lease
	for _, s := range all {
		i, ok := index[s.resource]
		if !ok {
			i = len(groups)
			index[s.resource] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}
