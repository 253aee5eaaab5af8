package trace

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/engine"
)

// queueConfig is the configuration of QueueTrace. The engine in memory clears up all that is dead in the step of
// each call.
func (b Batch) queueConfig() string {
	ids := make([]string, b.Ids)
	for i := range ids {
		ids[i] = fmt.Sprint(i + 1)
	}
	return fmt.Sprintf(`SPECIFICATION TraceSpec
CONSTANTS
    Ids = %s
    Heavy = {}
    Capacity = %d
    TTL = 0
    Claim = %d
    Life = %d
    Lives = 3
    Portion = 1000000
    Renewals = 0
    Breaks = TRUE
    Passes = FALSE
    LightPass = FALSE
    ComesBack = FALSE
    Unbounded = FALSE
    Weight <- WeightOf
    Lasts <- LastsOf
INVARIANTS Exclusion Ended
`, set(ids), b.Capacity, engine.ClaimWindow.Microseconds(), engine.WaiterLife.Microseconds())
}

// queue writes a trace for QueueTrace.
func (t Trace) queue() string {
	ids := t.ids()
	weights, ttls := make([]string, len(ids)), make([]string, len(ids))
	for id, n := range ids {
		terms := t.Fixed[id]
		weights[n-1], ttls[n-1] = fmt.Sprint(max(1, terms.Weight)), fmt.Sprint(terms.TTL)
	}
	events := make([]string, len(t.Events))
	at := t.Events[0].At
	for i, e := range t.Events {
		events[i] = e.queue(ids, e.At-at)
		at = e.At
	}
	return fmt.Sprintf("[weights |-> %s, lasts |-> %s, events |-> <<\n  %s>>]", tuple(weights), tuple(ttls), strings.Join(events, ",\n  "))
}

func (e Event) queue(ids map[string]int, after int64) string {
	holds, line := make([]string, len(e.Holds)), make([]string, len(e.Line))
	for i, h := range e.Holds {
		holds[i] = fmt.Sprintf("<<%d, %d>>", ids[h.ID], h.Rest)
	}
	for i, id := range e.Line {
		line[i] = fmt.Sprint(ids[id])
	}
	call := ""
	switch e.Op {
	case Ask:
		yields := -1
		if e.Yields != "" {
			yields = ids[e.Yields]
		}
		call = fmt.Sprintf("waits |-> %s, yields |-> %d, place |-> %d, rest |-> %d, ", boolean(e.Waits), yields, e.Place, e.Rest)
	case Renew:
		call = fmt.Sprintf("ttl |-> %d, ", e.TTL)
	case Break:
		call = fmt.Sprintf("force |-> %s, ", boolean(e.Force))
	}
	return fmt.Sprintf("[after |-> %d, op |-> %q, id |-> %d, %ssays |-> %q, holds |-> %s, line |-> %s]",
		after, e.Op, ids[e.ID], call, e.Says, set(holds), tuple(line))
}
