// Package model checks a history against a state machine of a lock: its steps must have
// an order that fits every call, its return and its result.
//
// The state is the holders and the highest token granted. An acquire takes effect at an
// instant between its call and its return; it is legal iff there is room for its weight and
// its token is higher. A lease excludes others from that instant until its end, which is the
// first of the call of a release that did not certainly fail, the moment at which it was lost
// or ended by an operator, and the end of its trust window (or the last acknowledged send +
// TTL, for a lock without windows). Definite failures are left out, and so are acquires of
// unknown outcome: they could only exclude others, and no order needs them.
//
// A mutex has a capacity of 1; readers, writers and semaphores are the same model with
// weights. Token 0 is never legal; Exclusion is the model of a lock without tokens.
//
// In general the search for such an order takes exponential time. Here it takes none:
// byToken and byReturn in order.go choose one instant for each acquire, and prove that if
// those do not fit, none do. So the verdict is exact, and every history has one.
package model

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Lock checks each resource of a history against the model of a lock. TTL is that of the
// leases, used only if the history has no trust windows.
func Lock(ttl time.Duration) check.Check { return lock(ttl, byToken) }

// Exclusion is Lock for a lock without tokens: it ignores them. All leases of a resource
// have the same capacity.
func Exclusion(ttl time.Duration) check.Check { return lock(ttl, byReturn) }

// misfit is a lease for which no instant fits.
type misfit struct {
	l   *lease
	why string
}

func lock(ttl time.Duration, judge func([]*lease) *misfit) check.Check {
	return check.Check{Name: "model", Find: func(ops []history.Op) []check.Violation {
		var out []check.Violation
		for _, part := range split(ops) {
			if m := judge(leases(part, ttl)); m != nil {
				out = append(out, check.Violation{Check: "model", Resource: part[0].Resource, At: m.l.returned,
					Text: fmt.Sprintf("no order of grants fits: %v %s", m.l, m.why)})
			}
		}
		return out
	}}
}

// split groups the operations by resource, in the order of first use.
func split(ops []history.Op) [][]history.Op {
	index := map[string]int{}
	var parts [][]history.Op
	for _, op := range ops {
		switch op.Kind {
		case history.Acquire, history.Release, history.Renew, history.Lost:
		default:
			continue
		}
		i, ok := index[op.Resource]
		if !ok {
			i = len(parts)
			index[op.Resource] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}
