package live

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
)

// world is the target of faults that do nothing.
type world struct{}

func (world) Begin(fault.Fault) (<-chan struct{}, error) { return nil, nil }
func (world) End(fault.Fault) error                      { return nil }

// after returns a run of Holdfast in which faults have happened.
func after(faults ...fault.Fault) *run {
	r := &run{p: Program{Subject: "holdfast", TTL: 300 * ms, Nodes: 1, Resources: []Resource{{Name: "r", Kind: Counter}}, Ways: []Way{NoTenure}},
		rec: history.NewRecorder(), faults: faults, inj: fault.NewInjector(world{}, faults...),
		live: &fault.Live{Stores: map[string]fault.Store{"node1": nil}}}
	r.ops = newOperator(r)
	r.inj.Start()
	return r
}

// lostBy is a history in which a client loses a lease 200 ms after the start.
func lostBy(client string) []history.Op {
	return []history.Op{
		{Client: client, Kind: history.Acquire, Resource: "r", Holder: "h", Outcome: history.OK, Return: 1 * ms, Until: 250 * ms, Token: 100},
		{Client: client, Kind: history.Lost, Resource: "r", Holder: "h", Outcome: history.OK, Call: 200 * ms, Return: 200 * ms},
	}
}

// Only a fault or a stall of the client, or of what it uses, explains that a lease was lost and
// that the store was unavailable.
func TestOnlyAnIncidentExplains(t *testing.T) {
	start := fault.After(0)
	for name, c := range map[string]struct {
		fault   fault.Fault
		stalls  []Stall
		broken  []broken
		kept    int // violations
		excused int // violations
	}{
		"nothing":                       {kept: 1, excused: 1},
		"a pause of the client":         {fault: fault.Fault{Kind: fault.Pause, Target: "w1", At: start, For: 10 * ms}},
		"a pause of another":            {fault: fault.Fault{Kind: fault.Pause, Target: "w2", At: start, For: 10 * ms}, kept: 1, excused: 1},
		"the link of the client":        {fault: fault.Fault{Kind: fault.Cut, Target: "w1-node1", At: start, For: 10 * ms}},
		"the link of another":           {fault: fault.Fault{Kind: fault.Cut, Target: "w2-node1", At: start, For: 10 * ms}, kept: 1, excused: 1},
		"the store":                     {fault: fault.Fault{Kind: fault.Pause, Target: "node1", At: start, For: 10 * ms}},
		"a fault that has not happened": {fault: fault.Fault{Kind: fault.Cut, Target: "w1-node1", At: fault.After(time.Hour)}, kept: 1, excused: 1},
		"a stall of the client":         {stalls: []Stall{{"w1", whole, 100 * ms, 180 * ms}}},
		"a stall of the store":          {stalls: []Stall{{"", whole, 100 * ms, 180 * ms}}},
		"a stall of another":            {stalls: []Stall{{"w2", whole, 100 * ms, 180 * ms}}, kept: 1, excused: 1},
		"a round trip of the client":    {stalls: []Stall{{"w1", trip, 100 * ms, 180 * ms}}},
		"a round trip of another":       {stalls: []Stall{{"w2", trip, 100 * ms, 180 * ms}}, kept: 1, excused: 1},
		"a round trip before":           {stalls: []Stall{{"w1", trip, -300 * ms, -100 * ms}}, kept: 1, excused: 1},
		"short stalls at the same time": {stalls: []Stall{{"w1", trip, 100 * ms, 125 * ms}, {"w1", trip, 102 * ms, 126 * ms}, {"", whole, 101 * ms, 126 * ms}}, kept: 1, excused: 1},
		"a thread of the client":        {stalls: []Stall{{"w1", thread, 100 * ms, 180 * ms}}},
		"a thread of another":           {stalls: []Stall{{"w2", thread, 100 * ms, 180 * ms}}, kept: 1, excused: 1},
		"a stall that its thread had":   {stalls: []Stall{{"w1", whole, 100 * ms, 125 * ms}, {"w1", thread, 126 * ms, 151 * ms}}, kept: 1, excused: 1},
		"a short stall":                 {stalls: []Stall{{"w1", whole, 100 * ms, 105 * ms}}, kept: 1, excused: 1},
		"a break of the lease":          {broken: []broken{{at: 100 * ms, resource: "r", holder: "w1", token: 100}}},
		"a break of an earlier lease":   {broken: []broken{{at: 100 * ms, resource: "r", holder: "w1", token: 10}}, kept: 1},
		"a break of another's lease":    {broken: []broken{{at: 100 * ms, resource: "r", holder: "w2", token: 100}}, kept: 1, excused: 1},
		"a break that came later":       {broken: []broken{{at: 210 * ms, resource: "r", holder: "w1", token: 100}}, kept: 1, excused: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var faults []fault.Fault
			if c.fault.Kind != "" {
				faults = append(faults, c.fault)
			}
			r := after(faults...)
			defer r.inj.Stop()
			r.stalled, r.ops.ended = c.stalls, c.broken
			if found := r.kept(lostBy("w1")); len(found) != c.kept {
				t.Errorf("kept: %v, want %d", found, c.kept)
			}
			r.excuse(excuse{"w1", "r", "unavailable", 150 * ms, 200 * ms})
			if found := r.unexplained(); len(found) != c.excused {
				t.Errorf("errors: %v, want %d", found, c.excused)
			}
			stalled := 0
			if len(c.stalls) > 0 {
				stalled = 2 - c.kept - c.excused
			}
			if r.byStall != stalled {
				t.Errorf("%d are explained by a stall, want %d", r.byStall, stalled)
			}
		})
	}
}

// In a run without faults, order and hand-offs are judged, and notices of breaks.
func TestCalmRunsAreJudged(t *testing.T) {
	released := func(client, holder string, at time.Duration) history.Op {
		return history.Op{Client: client, Kind: history.Release, Resource: "r", Holder: holder, Outcome: history.OK, Call: at, Return: at}
	}
	passed := []history.Op{
		got("w1", "a", 0, 1*ms, 1), released("w1", "a", 590*ms), got("w3", "c", 300*ms, 600*ms, 2), released("w3", "c", 890*ms),
		got("w2", "b", 100*ms, 900*ms, 3),
	}
	late := []history.Op{got("w1", "a", 0, 1*ms, 1), released("w1", "a", 51*ms), got("w2", "b", 10*ms, 900*ms, 3)}
	soon := []history.Op{got("w1", "a", 0, 1*ms, 1), released("w1", "a", 51*ms), got("w2", "b", 45*ms, 900*ms, 3)}
	unheard := []history.Op{got("w1", "a", 0, 1*ms, 1), released("w1", "a", 900*ms)}
	brokenEarly := []broken{{at: 10 * ms, done: 11 * ms, resource: "r", holder: "w1", token: 1}}
	for name, c := range map[string]struct {
		ops    []history.Op
		faults []fault.Fault
		broken []broken
		stall  time.Duration
		stalls []Stall
		ways   []Way
		want   string
	}{
		"passed":                     {ops: passed, want: "starvation"},
		"passed within a tenure":     {ops: passed, ways: []Way{Plain}},
		"passed with a fault":        {ops: passed, faults: []fault.Fault{{Kind: fault.Pause, Target: "w1", At: fault.After(0), For: ms}}},
		"passed with a stall":        {ops: passed, stall: 300 * ms},
		"passed with a round trip":   {ops: passed, stalls: []Stall{{"w2", trip, 90 * ms, 400 * ms}}},
		"passed, trip of another":    {ops: passed, stalls: []Stall{{"w3", trip, 90 * ms, 400 * ms}}, want: "starvation"},
		"late with a thread":         {ops: late, stalls: []Stall{{"w2", thread, 60 * ms, 260 * ms}}},
		"late with a round trip":     {ops: late, stalls: []Stall{{"w2", trip, 60 * ms, 260 * ms}}, want: "hand-off"},
		"handed off late":            {ops: late, want: "hand-off"},
		"late, but on its way":       {ops: soon, want: "deadlock"},
		"handed off within a stall":  {ops: late, stall: 200 * ms},
		"a break that was not heard": {ops: unheard, faults: []fault.Fault{{Kind: fault.Break, Target: "r", At: fault.After(0)}}, broken: brokenEarly, want: "end-seen"},
	} {
		t.Run(name, func(t *testing.T) {
			r := after(c.faults...)
			defer r.inj.Stop()
			r.ops.ended = c.broken
			if c.ways != nil {
				r.p.Ways = c.ways
			}
			for _, s := range c.stalls {
				r.stall(s)
			}
			if c.stall > 0 {
				r.stall(Stall{To: c.stall})
			}
			var names []string
			for _, v := range r.calmly(c.ops) {
				names = append(names, v.Check)
			}
			if c.want == "" && len(names) > 0 || c.want != "" && (len(names) == 0 || names[0] != c.want) {
				t.Errorf("found %v, want %q", names, c.want)
			}
		})
	}
}
