package nightly

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

var plan = Plan{Nights: 12}

func TestMain(m *testing.M) {
	logging.Disable() // of dials to a store that was killed
	if ServeNode() {
		return
	}
	flag.IntVar(&plan.Nights, "nights", plan.Nights, "number of nights, of two seconds each")
	flag.Uint64Var(&plan.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the faults")
	flag.Parse()
	os.Exit(m.Run())
}

// Each night the report is built once and pushed to each user once, whatever dies.
func TestEachUserIsPushedOnce(t *testing.T) {
	t.Parallel()
	r := Run(t, plan)
	t.Logf("seed %d: %+v", plan.Seed, r)
	for _, broken := range r.Broken {
		t.Error(broken)
	}
	if r.Whole < plan.Nights/2 || r.TakenOver == 0 {
		t.Errorf("the run shows too little: %d of %d nights are whole, %d were taken over", r.Whole, plan.Nights, r.TakenOver)
	}
}

// A lock alone does not do it: when the clock of another node says midnight, the first one has released.
func TestALockPushesTwice(t *testing.T) {
	t.Parallel()
	r := Run(t, Plan{Nights: 3, Mutex: true, Calm: true})
	if len(r.Broken) == 0 {
		t.Errorf("the judge finds nothing: %+v", r)
	}
}

// What the judge finds.
func TestJudge(t *testing.T) {
	at := func(ms int, node string, k kind, user string) event {
		return event{Node: node, Kind: k, Night: "n", User: user, at: time.UnixMilli(int64(ms))}
	}
	fault := func(what, node string, from, to int) incident {
		return incident{what, node, time.UnixMilli(int64(from)), time.UnixMilli(int64(to))}
	}
	report := []event{at(0, "a", building, ""), at(20, "a", built, "")}
	for _, one := range []struct {
		name   string
		events []event
		faults []incident
		broken int
	}{
		{"once each", []event{at(30, "a", sent, "1"), at(40, "a", sent, "2"), at(50, "a", pushed, "")}, nil, 0},
		{"twice by another node", []event{at(30, "a", sent, "1"), at(900, "b", sent, "1")}, nil, 1},
		{"twice by the same node", []event{at(30, "a", sent, "1"), at(31, "a", sent, "1")}, nil, 1},
		{"built twice", []event{at(700, "b", built, "")}, nil, 1},
		{"again after a kill", []event{at(30, "a", sent, "1"), at(900, "b", sent, "1")}, []incident{fault(kill, "a", 31, 32)}, 0},
		{"again after the kill of another", []event{at(30, "a", sent, "1"), at(900, "b", sent, "1")}, []incident{fault(kill, "c", 31, 32)}, 1},
		{"again before the kill", []event{at(30, "a", sent, "1"), at(900, "b", sent, "1")}, []incident{fault(kill, "a", 901, 902)}, 1},
		{"long after a kill", []event{at(530, "a", sent, "1"), at(900, "b", sent, "1")}, []incident{fault(kill, "a", 100, 101)}, 1},
		{"again after a pause of the second", []event{at(700, "a", sent, "1"), at(900, "b", sent, "1")}, []incident{fault(stop, "b", 30, 890)}, 0},
		{"again while the store was down", []event{at(700, "a", sent, "1"), at(900, "b", sent, "1")}, []incident{fault(restart, "", 690, 800)}, 0},
		{"a user without a push", []event{at(30, "a", sent, "1"), at(50, "a", pushed, "")}, nil, 1},
	} {
		t.Run(one.name, func(t *testing.T) {
			r := judge(append(report[:2:2], one.events...), one.faults, 2, nodeTTL, func(_, _ time.Time) time.Duration { return 0 })
			if len(r.Broken) != one.broken {
				t.Errorf("found %q", r.Broken)
			}
		})
	}
	if r := judge([]event{at(30, "a", sent, "1")}, nil, 2, nodeTTL, func(_, _ time.Time) time.Duration { return 0 }); len(r.Broken) != 1 {
		t.Errorf("a push without a report: %+v", fmt.Sprint(r))
	}
}
