package live

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

const ms = time.Millisecond

// got is a grant of the mutex r that is good for 100 ms.
func got(client, holder string, call, ret time.Duration, token uint64) history.Op {
	return history.Op{Client: client, Kind: history.Acquire, Resource: "r", Holder: holder, Outcome: history.OK,
		Call: call, Return: ret, Until: call + 100*ms, Token: token}
}

// A lease that a store lost excludes no other; nothing else is excused.
func TestForgotten(t *testing.T) {
	lost := wipe{at: 50 * ms, below: 500}
	ops := []history.Op{
		got("a", "a1", 0, 10*ms, 100), // over before
		{Client: "a", Kind: history.Release, Resource: "r", Holder: "a1", Outcome: history.OK, Call: 20 * ms, Return: 21 * ms}, //
		got("b", "b1", 30*ms, 40*ms, 200), // forgotten
		got("c", "c1", 60*ms, 70*ms, 600), // of the new store
		got("d", "d1", 45*ms, 80*ms, 210), // forgotten, and reported too late
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
			t.Errorf("reported too late: %+v", op)
		}
	}
}

// A worker that was killed stops to rely on what it had, may have sent a release
// that got no answer, and has begun the runs that it did not finish.
func TestBurial(t *testing.T) {
	c := &workerProcess{name: "w2", died: 90 * ms, runs: map[string]history.Op{"slot": {Client: "w2", Kind: history.Run, Resource: "slot", Call: 80 * ms}}}
	ops := []history.Op{
		got("w1", "w1-1", 0, 1*ms, 1),
		got("w2", "w2-1", 10*ms, 11*ms, 2),
		{Client: "w2", Kind: history.Leave, Resource: "r", Holder: "w2-1", Outcome: history.OK, Call: 20 * ms, Return: 20 * ms},
		got("w2", "w2-2", 30*ms, 31*ms, 3),
	}
	kinds := map[history.Kind]int{}
	for _, op := range c.deathOps(ops) {
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
	if alive := (&workerProcess{name: "w1"}).deathOps(ops); alive != nil {
		t.Errorf("it lives: %+v", alive)
	}
}

// What an operator ended by force is the lease that it saw, also where that passed from
// hand to hand; without an answer it may go on. Nothing else is excused.
func TestForcedBreaks(t *testing.T) {
	shared := func(op history.Op) history.Op {
		op.Resource, op.Weight, op.Capacity = "s", 1, 3
		return op
	}
	renewed := func(op history.Op) history.Op {
		op.Kind, op.Call, op.Return, op.Until = history.Renew, 150*ms, 150*ms, 250*ms
		return op
	}
	first, next, others := got("a", "a1", 0, 1*ms, 100), got("a", "a2", 5*ms, 6*ms, 101), got("b", "b1", 5*ms, 6*ms, 102)
	one, beside := shared(got("a", "a3", 0, 1*ms, 200)), shared(got("a", "a4", 0, 1*ms, 201))
	first.Store, next.Store = "s1", "s2"
	ops := []history.Op{first, next, others, one, beside}
	for _, op := range slices.Clone(ops) {
		ops = append(ops, renewed(op))
	}
	ended := check.Ended(100 * ms)
	for _, c := range []struct {
		name  string
		lease broken
		over  []string // which stays may have ended
		finds int      // that were extended although they had
	}{
		{"with an answer", broken{force: true, at: 20 * ms, done: 30 * ms, resource: "r", holder: "a", token: 100}, []string{"a1", "a2"}, 2},
		{"with a late answer", broken{force: true, at: 20 * ms, done: 160 * ms, resource: "r", holder: "a", token: 100}, []string{"a1", "a2"}, 0},
		{"without an answer", broken{force: true, at: 20 * ms, resource: "r", holder: "a", token: 100}, []string{"a1", "a2"}, 0},
		{"of who knows whom", broken{force: true, at: 20 * ms, done: 30 * ms, resource: "r", token: 100}, []string{"a1", "a2", "b1"}, 3},
		{"of a lease that another of the client follows", broken{force: true, at: 20 * ms, done: 30 * ms, resource: "r", holder: "a", token: 100, store: "s1"}, []string{"a1"}, 1},
		{"of one that is shared", broken{force: true, at: 20 * ms, done: 30 * ms, resource: "s", holder: "a", token: 200}, []string{"a3"}, 1},
	} {
		o := &operator{ended: []broken{c.lease}}
		more := o.forcedReleases(ops)
		var over []string
		for _, op := range more {
			over = append(over, op.Holder)
		}
		if !slices.Equal(over, c.over) {
			t.Errorf("%s: ended %v, want %v", c.name, over, c.over)
		}
		if found := check.Run(append(more, ops...), ended); len(found) != c.finds {
			t.Errorf("%s: found %v, want %d", c.name, found, c.finds)
		}
	}
}

// Only on a node that was silent while a client closed may its turn stay for the life of a waiter, and its
// lease for the TTL.
func TestWhatMayStay(t *testing.T) {
	quorum, single, rolled := []*store{{}, {}, {}}, []*store{{}}, []*store{{rolls: []rollBack{{below: 500}}}}
	workers := []*workerProcess{{name: "w1", silent: []time.Duration{10 * ms, 320 * ms, 0}}, {name: "w2", silent: []time.Duration{0, 240 * ms, 0}}}
	for _, c := range []struct {
		name   string
		stores []*store
		left   leftBehind
		want   time.Duration
	}{
		{"a turn on a silent node", quorum, leftBehind{node: 1, client: "w1", waiting: true}, waiterLife + tidy},
		{"a turn on a node that answered", quorum, leftBehind{node: 0, client: "w1", waiting: true}, tidy},
		{"the turn of another client, to which the node answered", quorum, leftBehind{node: 1, client: "w2", waiting: true}, tidy},
		{"a lease on a node that answered", quorum, leftBehind{node: 0, client: "w1"}, tidy},
		{"a lease on a silent node, perhaps of a waiter of a Cond", quorum, leftBehind{node: 1, client: "w1"}, waiterLife + tidy},
		{"a waiter of a Cond on a node that answered", quorum, leftBehind{node: 0, client: "w1", woken: true}, tidy},
		{"a lease on one Redis", single, leftBehind{node: 0, client: "w1"}, tidy},
		{"a waiter on one Redis", single, leftBehind{node: 0, client: "w1", waiting: true}, tidy},
		{"a waiter that a roll-back brought back", rolled, leftBehind{node: 0, client: "w1", waiting: true}, waiterLife + 100*ms + tidy},
	} {
		if got := (&run{p: Program{TTL: 100 * ms}, stores: c.stores, workers: workers}).mayStay(c.left); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		subject string
		left    leftBehind
		again   bool
		want    time.Duration
	}{
		{"holdfast-zookeeper", leftBehind{client: "w1", woken: true}, true, waiterLife + tidy},
		{"holdfast-zookeeper", leftBehind{client: "w1", woken: true}, false, tidy},
		{"holdfast-zookeeper", leftBehind{client: "w1"}, true, tidy},
		{"holdfast-postgres", leftBehind{client: "w1", woken: true}, true, tidy},
	} {
		if got := (&run{p: Program{Subject: c.subject}, stores: []*store{{again: c.again}}, workers: workers}).mayStay(c.left); got != c.want {
			t.Errorf("%s, restarted: %v, of a waiter of a Cond: %v: %v, want %v", c.subject, c.again, c.left.woken, got, c.want)
		}
	}
	killed := []*workerProcess{workers[0], workers[1], {name: "w3", died: ms}}
	for woken, want := range map[bool]time.Duration{false: tidy, true: waiterLife + tidy} {
		if got := (&run{p: Program{TTL: 100 * ms}, stores: quorum, workers: killed}).mayStay(leftBehind{node: 0, client: "w1", woken: woken}); got != want {
			t.Errorf("a lease, of a waiter of a Cond: %v, when a process was killed that may have signalled: %v, want %v", woken, got, want)
		}
	}
	once := Program{TTL: 100 * ms, Resources: []Resource{{Kind: Slot}}}
	if got := (&run{p: once, stores: quorum, workers: workers}).mayStay(leftBehind{node: 1, client: "w1"}); got != holdfast.DefaultTTL+tidy {
		t.Errorf("a lease of a Once on a silent node: %v", got)
	}
	for token, back := range map[uint64]bool{499: true, 500: true, 501: false} {
		if got := rolled[0].restored(leftBehind{token: token}); got != back || single[0].restored(leftBehind{token: token}) {
			t.Errorf("a lease of token %d may be of the copy: %v", token, got)
		}
	}
}
