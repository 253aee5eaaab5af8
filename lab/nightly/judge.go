package nightly

import (
	"fmt"
	"slices"
	"time"
)

// kind is what a node does.
type kind string

const (
	building kind = "building" // the report: begun
	built    kind = "built"    // the report is stored
	sent     kind = "sent"     // the report, to one user
	pushed   kind = "pushed"   // all users have it
)

// event is something that a node did, when the gateway received it.
type event struct {
	Node  string
	Kind  kind
	Night string
	User  string `json:",omitempty"`

	at time.Time
}

// incident is a fault: of a node, or of the store if node is empty. A node that is killed does nothing more.
type incident struct {
	what     string
	node     string
	from, to time.Time
}

// reach is how long after an incident a request of a node may arrive that was sent before its end.
const reach = 100 * time.Millisecond

// explains reports whether the incident can be why a second node did again what a first one had done.
func (f incident) explains(first, again event) bool {
	during := !f.from.After(again.at) && !f.to.Add(reach).Before(first.at)
	return during && (f.node == "" || f.node == first.Node || f.node == again.Node && f.what != kill)
}

// Result is what came of a run.
type Result struct {
	Nights    int            // in which a report was built
	Whole     int            // nights in which a node had sent the report to all users
	Sent      int            // to a user
	Again     int            // of them repeated after a fault
	TakenOver int            // nights in which more than one node pushed
	Faults    map[string]int // by kind
	Broken    []string       // promises
}

// judge compares what the nodes did with what a Job promises. stalled returns for how long the machine did
// nothing between two instants.
func judge(events []event, faults []incident, users int, ttl time.Duration, stalled func(from, to time.Time) time.Duration) Result {
	r := Result{Faults: map[string]int{}}
	for _, f := range faults {
		r.Faults[f.what]++
	}
	first := map[event]event{} // by what was done, without node and time
	reached, pushers := map[string]int{}, map[string][]string{}
	for _, e := range events {
		what := event{Kind: e.Kind, Night: e.Night, User: e.User}
		before, again := first[what]
		switch {
		case !again:
			first[what] = e
		case slices.ContainsFunc(faults, func(f incident) bool { return f.explains(before, e) }), stalled(before.at, e.at) > ttl/3:
			r.Again++
		default:
			r.Broken = append(r.Broken, fmt.Sprintf("%s: %s %s by %s, and %v later by %s, without a fault between", e.Night, e.Kind, e.User, before.Node, e.at.Sub(before.at), e.Node))
		}
		switch e.Kind {
		case built:
			if !again {
				r.Nights++
			}
		case sent:
			r.Sent++
			if !again {
				reached[e.Night]++
			}
			if _, isBuilt := first[event{Kind: built, Night: e.Night}]; !isBuilt {
				r.Broken = append(r.Broken, fmt.Sprintf("%s: sent to %s before the report was built", e.Night, e.User))
			}
			if !slices.Contains(pushers[e.Night], e.Node) {
				pushers[e.Night] = append(pushers[e.Night], e.Node)
			}
		case pushed:
			if !again {
				r.Whole++
			}
			if reached[e.Night] != users {
				r.Broken = append(r.Broken, fmt.Sprintf("%s: %s has pushed, and %d of %d users have it", e.Night, e.Node, reached[e.Night], users))
			}
		}
	}
	for _, nodes := range pushers {
		if len(nodes) > 1 {
			r.TakenOver++
		}
	}
	return r
}
