package live

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Each turn has one end in the history in the store. One whose release was not confirmed may be recorded as a loss.
func TestEndsOfTurns(t *testing.T) {
	for _, c := range []struct {
		name           string
		must, may, got ends
		fits           bool
	}{
		{"released", ends{released: 1}, ends{released: 1}, ends{released: 1}, true},
		{"lost", ends{lost: 1}, ends{lost: 1}, ends{lost: 1}, true},
		{"unclear, released", ends{unclear: 1}, ends{unclear: 1}, ends{released: 1}, true},
		{"unclear, lost", ends{unclear: 1}, ends{unclear: 1}, ends{lost: 1}, true},
		{"readers of one lease", ends{released: 3, unclear: 1}, ends{released: 3, unclear: 1}, ends{released: 3, lost: 1}, true},
		{"missing", ends{released: 1}, ends{released: 1}, ends{}, false},
		{"missing, which may be", ends{}, ends{released: 1}, ends{}, true},
		{"of what may be missing, another", ends{}, ends{released: 1}, ends{lost: 1}, false},
		{"twice", ends{released: 1}, ends{released: 1}, ends{released: 2}, false},
		{"lost, recorded as released", ends{lost: 1}, ends{lost: 1}, ends{released: 1}, false},
		{"released, recorded as lost", ends{released: 1}, ends{released: 1}, ends{lost: 1}, false},
		{"of no lease", ends{}, ends{}, ends{released: 1}, false},
	} {
		if c.got.between(c.must, c.may) != c.fits {
			t.Errorf("%s: %+v, at least %+v, at most %+v: want %v", c.name, c.got, c.must, c.may, c.fits)
		}
	}
}

// The history of a client of one lease, held from 10 ms to 600 ms after a wait of 10 ms, and then a wait without a lease
// until 900 ms.
func TestHistoryOfAClient(t *testing.T) {
	const ms = time.Millisecond
	op := func(kind history.Kind, outcome history.Outcome, call, ret time.Duration, holder string) history.Op {
		o := history.Op{Client: "w1", Kind: kind, Resource: "x", Holder: holder, Outcome: outcome, Call: call, Return: ret}
		if outcome == history.OK {
			o.Token = 7
		}
		return o
	}
	acquire, release := op(history.Acquire, history.OK, 0, 10*ms, "w1-1"), op(history.Release, history.OK, 600*ms, 602*ms, "w1-1")
	wait := op(history.Acquire, history.Failed, 700*ms, 900*ms, "w1-2")
	try := wait
	try.Try = true
	granted := holdfast.HistoryEvent{Event: holdfast.HistoryGranted, Resource: "x", Token: 7, Waited: 10 * ms}
	released := holdfast.HistoryEvent{Event: holdfast.HistoryReleased, Resource: "x", Token: 7, Held: 592 * ms}
	waited := holdfast.HistoryEvent{Event: holdfast.HistoryWithdrawn, Resource: "x", Waited: 199 * ms}
	wrong := func(e holdfast.HistoryEvent, held, waited time.Duration) holdfast.HistoryEvent {
		e.Held, e.Waited = held, waited
		return e
	}
	late := released
	late.Token = 8
	events := func(all ...holdfast.HistoryEvent) []holdfast.HistoryEvent { return all }
	ops := []history.Op{acquire, release, wait, try}
	for _, c := range []struct {
		name        string
		ops         []history.Op
		events      []holdfast.HistoryEvent
		died, wiped time.Duration
		finds       string // part of what is found; empty: nothing
	}{
		{"all", ops, events(granted, released, waited), 0, 0, ""},
		{"without the end", ops, events(granted, waited), 0, 0, "token 7"},
		{"without the grant", ops, events(released, waited), 0, 0, "no grant"},
		{"without the wait", ops, events(granted, released), 0, 0, "0 waits"},
		{"a try counts as a wait", ops, events(granted, released, waited, waited), 0, 0, "2 waits"},
		{"two grants", ops, events(granted, granted, released, waited), 0, 0, "2 grants"},
		{"of no lease", ops, events(granted, released, late, waited), 0, 0, "token 8"},
		{"held too long", ops, events(granted, wrong(released, 605*ms, 0), waited), 0, 0, "held 605ms"},
		{"held too short", ops, events(granted, wrong(released, 580*ms, 0), waited), 0, 0, "held 580ms"},
		{"granted after too long", ops, events(wrong(granted, 0, 12*ms), released, waited), 0, 0, "waited 12ms"},
		{"released after another wait", ops, events(granted, wrong(released, 592*ms, 12*ms), waited), 0, 0, "waited 12ms"},
		{"waited too long", ops, events(granted, released, wrong(waited, 0, 202*ms)), 0, 0, "202ms"},
		{"waited too short", ops, events(granted, released, wrong(waited, 0, 9*ms)), 0, 0, "9ms"},
		{"dropped", ops, events(granted, released, waited, holdfast.HistoryEvent{Event: holdfast.HistoryDropped, Count: 3}), 0, 0, "dropped 3"},

		{"killed, and all is there", ops, events(granted, released, waited), 1000 * ms, 0, ""},
		{"killed, without the latest", ops, events(granted, released), 1000 * ms, 0, ""},
		{"killed long after it", ops, events(granted, released), 1300 * ms, 0, "0 waits"},
		{"killed, with the latest and without what was before", ops, events(granted), 1000 * ms, 0, "token 7"},
		{"killed at once", ops[:1], nil, 340 * ms, 0, ""},
		{"killed while it held", ops[:1], events(granted), 500 * ms, 0, ""},
		{"killed while it held, without the grant", ops[:1], nil, 500 * ms, 0, "no grant"},
		{"killed while it acquired", nil, events(granted), 500 * ms, 0, ""},
		{"killed while one hand acquired, with two grants", nil, events(granted, wrong(late, 0, 0)), 500 * ms, 0, "with 1 hands"},

		{"lost with the data of the store", ops, nil, 0, 950 * ms, ""},
		{"not lost with it", ops, events(granted), 0, 650 * ms, "0 waits"},
		{"after the loss, another end", ops, events(wrong(released, 592*ms, 0), late), 0, 950 * ms, "token 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found []string
			j := &historyJudge{
				seen: observedOf(c.ops, "w1", c.died), written: writtenBy(c.events)[""], wiped: c.wiped, hands: 1,
				compared: func(string) bool { return true },
				ready:    func(from, until time.Duration) bool { return until-from >= recorderGather+handedOff },
				late:     func(time.Duration, time.Duration) time.Duration { return 5 * ms },
				broke:    func(history.Op, time.Duration) bool { return false },
				found:    func(_, format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) },
			}
			j.judge()
			all := strings.Join(found, "\n")
			if c.finds == "" && all != "" || c.finds != "" && !strings.Contains(all, c.finds) {
				t.Errorf("found %q; want %q", all, c.finds)
			}
		})
	}
}

// What was recorded before the copy of a store was made is in it; what ended later may be lost with a roll-back.
func TestHistoryOfARollBack(t *testing.T) {
	for _, c := range []struct {
		name                  string
		ended, copied, rolled time.Duration
		sure                  bool
	}{
		{"long before the copy", 100 * ms, 900 * ms, 1200 * ms, true},
		{"just before the copy", 800 * ms, 900 * ms, 1200 * ms, false},
		{"after the copy", 1000 * ms, 900 * ms, 1200 * ms, false},
		{"after the roll-back", 1300 * ms, 900 * ms, 1200 * ms, true},
		{"before another loss", 100 * ms, 0, 1200 * ms, false},
	} {
		j := &historyJudge{copied: c.copied, wiped: c.rolled, ready: func(from, until time.Duration) bool { return until-from >= recorderGather+handedOff }}
		if got := j.sure(c.ended); got != c.sure {
			t.Errorf("%s: it has to be there: %v", c.name, got)
		}
	}
}

// The bound for what a killed client may not have written is that of the library.
func TestGatherIsTheRecorders(t *testing.T) {
	source, err := os.ReadFile("../../history_recorder.go")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`historyGather += (\d+) \* time.Millisecond`).FindSubmatch(source)
	if m == nil || string(m[1]) != fmt.Sprint(recorderGather.Milliseconds()) {
		t.Errorf("historyGather is %q ms; want %v", m, recorderGather)
	}
}

// In some programs a worker is killed that has had time to record something.
func TestKilledLate(t *testing.T) {
	killed := 0
	for seed := range uint64(200) {
		if p := Draw(seed, Setting{Subject: "holdfast"}); p.History && slices.ContainsFunc(p.Faults, func(f string) bool { return strings.HasPrefix(f, "kill w") }) {
			killed++
		}
	}
	if killed < 20 {
		t.Errorf("in 200 programs with a history %d workers are killed", killed)
	}
}
