// Package check judges recorded histories. A check knows what a lock promises
// and what was recorded, and nothing of the faults that were planted: which
// promises hold under a fault is for whoever planted it to say, by choosing the
// checks.
//
// # What a history has to say
//
//   - A stay is one time in possession: the operations of one Resource with the
//     same Holder. It begins with an Acquire that is OK, at its Return.
//   - A stay stops to rely on the lock at the first of: the Call of a Release,
//     a Lost, a Leave, and the latest Until that it was told by its Acquire or a
//     Renew. A client that dies is a Leave.
//   - A Release of somebody else's Holder, by another Client, is an operator's:
//     exclusion is not promised to that stay from its Call on, only fencing. The
//     stay has ended at its Return, if it is OK; of unknown outcome it may go on.
//   - A Renew with a Weight lowers the weight of the stay from its Call on.
//   - On the protected side the order of operations is that of their Return,
//     and of the history where that is equal. Note tells values of one Resource
//     apart. Read and Write carry the Token shown, Failed ones were refused, and
//     Until is the end of the trust window as the lock showed it in the same
//     moment as it said that all is well; 0: it was not asked.
package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Violation is a promise that was not kept.
type Violation struct {
	Check    string        `json:"check"` // the name of the check that saw it
	Resource string        `json:"resource,omitempty"`
	At       time.Duration `json:"at"`
	Text     string        `json:"text"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s at %v: %s", v.Check, v.Resource, v.At, v.Text)
}

// Check looks for violations of one promise.
type Check struct {
	// Name is what a Violation calls it.
	Name string
	// Find returns what it saw, in order of time.
	Find func([]history.Op) []Violation
}

// Run applies checks one after the other.
func Run(ops []history.Op, checks ...Check) []Violation {
	var all []Violation
	for _, c := range checks {
		all = append(all, c.Find(ops)...)
	}
	return all
}

// forever is the end of a stay that nothing ended.
const forever = time.Duration(1<<63 - 1)

// stay is one time in possession of a resource.
type stay struct {
	client, resource, holder string
	token                    uint64
	capacity                 int
	call, start              time.Duration // of the acquire: asked, and got
	spans                    []span        // by weight, one after the other
	until                    time.Duration // latest end of the trust window; 0: none
	told                     time.Duration // first Release, Lost or Leave; forever: none
	lost                     bool          // it was a Lost
	returned                 time.Duration // when the lock confirmed its Release; forever: never
	broken                   time.Duration // from when on an operator may have ended it; forever: never
	ended                    time.Duration // when an operator had ended it for certain; forever: never
}

// span is a time with one weight.
type span struct {
	from   time.Duration
	weight int
}

// end is when the stay stops to rely on the lock.
func (s *stay) end() time.Duration {
	end := min(s.told, s.broken)
	if s.until != 0 {
		end = min(end, s.until)
	}
	return end
}

func (s *stay) String() string {
	return fmt.Sprintf("%s/%s (token %d, %v to %v)", s.client, s.holder, s.token, s.start, s.end())
}

// key joins the operations of a stay.
type key struct{ resource, holder string }

// stays collects the stays of a history, in the order of their start.
func stays(ops []history.Op) []*stay {
	byKey := map[key]*stay{}
	var all []*stay
	for _, op := range ops {
		if op.Kind != history.Acquire || op.Outcome != history.OK {
			continue
		}
		s := &stay{
			client: op.Client, resource: op.Resource, holder: op.Holder, token: op.Token,
			capacity: max(op.Capacity, 1), call: op.Call, start: op.Return,
			spans: []span{{op.Return, max(op.Weight, 1)}},
			until: op.Until, told: forever, broken: forever, ended: forever, returned: forever,
		}
		byKey[key{op.Resource, op.Holder}] = s
		all = append(all, s)
	}
	for _, op := range ops {
		if s := byKey[key{op.Resource, op.Holder}]; s != nil {
			s.follow(op)
		}
	}
	slices.SortStableFunc(all, func(a, b *stay) int { return int(a.start - b.start) })
	return all
}

// follow takes in what happened during the stay.
func (s *stay) follow(op history.Op) {
	switch op.Kind {
	case history.Renew:
		if op.Outcome == history.OK && op.Until != 0 {
			s.until = max(s.until, op.Until)
		}
		if op.Weight > 0 {
			s.spans = append(s.spans, span{op.Call, op.Weight})
		}
	case history.Lost:
		if op.Call < s.told {
			s.told, s.lost = op.Call, true
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
		if op.Call < s.told {
			s.told, s.lost = op.Call, false
		}
	case history.Leave:
		if op.Call < s.told {
			s.told, s.lost = op.Call, false
		}
	}
}

// byResource groups stays, resources in the order of first use.
func byResource(all []*stay) [][]*stay {
	index := map[string]int{}
	var groups [][]*stay
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
