package live

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

const ms = time.Millisecond

// got is a grant of the mutex r that is good for 100 ms.
func got(client, holder string, call, ret time.Duration, token uint64) history.Op {
	return history.Op{Client: client, Kind: history.Acquire, Resource: "r", Holder: holder, Outcome: history.OK,
		Call: call, Return: ret, Until: call + 100*ms, Token: token}
}

// What a store forgot keeps nobody out, and nothing else is excused.
func TestForgotten(t *testing.T) {
	lost := wipe{at: 50 * ms, below: 500}
	ops := []history.Op{
		got("a", "a1", 0, 10*ms, 100), // over before
		{Client: "a", Kind: history.Release, Resource: "r", Holder: "a1", Outcome: history.OK, Call: 20 * ms, Return: 21 * ms}, //
		got("b", "b1", 30*ms, 40*ms, 200), // forgotten
		got("c", "c1", 60*ms, 70*ms, 600), // of the new store
		got("d", "d1", 45*ms, 80*ms, 210), // forgotten, and heard of too late
	}
	more := forgotten(ops, lost)
	if len(more) != 2 || more[0].Holder != "b1" || more[1].Holder != "d1" {
		t.Fatalf("%+v", more)
	}
	all := append(ops, more...)
	if found := check.Run(all, check.Overlap(), check.Tokens()); len(found) > 0 {
		t.Error(found)
	}
	if found := check.Run(append(all, got("e", "e1", 75*ms, 90*ms, 700)), check.Overlap()); len(found) != 1 {
		t.Errorf("two of the new store: %v", found)
	}
	for _, op := range inTime(all) {
		if op.Holder == "d1" {
			t.Errorf("heard of too late: %+v", op)
		}
	}
}

// A worker that was killed stops to rely on what it had, may have sent a release
// that nobody answered, and has begun the runs that it did not finish.
func TestBurial(t *testing.T) {
	c := &crewman{name: "w2", died: 90 * ms, runs: map[string]history.Op{"slot": {Client: "w2", Kind: history.Run, Resource: "slot", Call: 80 * ms}}}
	ops := []history.Op{
		got("w1", "w1-1", 0, 1*ms, 1),
		got("w2", "w2-1", 10*ms, 11*ms, 2),
		{Client: "w2", Kind: history.Leave, Resource: "r", Holder: "w2-1", Outcome: history.OK, Call: 20 * ms, Return: 20 * ms},
		got("w2", "w2-2", 30*ms, 31*ms, 3),
	}
	kinds := map[history.Kind]int{}
	for _, op := range c.burial(ops) {
		kinds[op.Kind]++
		switch {
		case op.Client != "w2", op.Kind == history.Leave && op.Call != c.died:
			t.Errorf("%+v", op)
		case op.Kind == history.Release && (op.Outcome != history.Unknown || op.Holder != "w2-1" || op.Call != 20*ms):
			t.Errorf("%+v", op)
		case op.Kind == history.Run && op.Outcome != history.Failed:
			t.Errorf("%+v", op)
		}
	}
	if kinds[history.Leave] != 2 || kinds[history.Release] != 1 || kinds[history.Run] != 1 {
		t.Errorf("%v", kinds)
	}
	if alive := (&crewman{name: "w1"}).burial(ops); alive != nil {
		t.Errorf("it lives: %+v", alive)
	}
}
