package live

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/ledger"
)

// A lease whose record is in the copy excludes others until the end of the window that its client had then, or for longer if the
// restored store renewed it. One that was granted later excludes nobody, and if the store did not know it, it is not extended.
func TestLeasesOfARollBack(t *testing.T) {
	const ttl = 300 * ms
	roll := rollBack{from: 100 * ms, until: 101 * ms, at: 200 * ms, below: 500}
	// granted is a lease of a, with a window of 270 ms from its call.
	granted := func(call, ret time.Duration) []history.Op {
		return []history.Op{{Client: "a", Kind: history.Acquire, Resource: "r", Holder: "a1", Store: "s1", Outcome: history.OK, Call: call, Return: ret,
			Until: call + ttl - ledger.Margin(ttl), Token: 100}}
	}
	renewal := func(sent time.Duration) history.Op {
		return history.Op{Client: "a", Kind: history.Renew, Resource: "r", Holder: "a1", Outcome: history.OK, Call: sent + ms, Return: sent + ms, Until: sent + ttl - ledger.Margin(ttl)}
	}
	for name, c := range map[string]struct {
		ops     []history.Op
		named   time.Duration // 0: the ledger has not seen it
		want    time.Duration // from when on others are not excluded; 0: they are
		certain bool
		n       Rolled
	}{
		"in the copy":                         {ops: granted(10*ms, 11*ms), named: 10 * ms, want: 10*ms + 274*ms, n: Rolled{Kept: 1}},
		"in the copy, renewed before it":      {ops: append(granted(10*ms, 11*ms), renewal(90*ms)), named: 10 * ms, want: 90*ms + 274*ms, n: Rolled{Kept: 1}},
		"in the copy, renewed after it":       {ops: append(granted(10*ms, 11*ms), renewal(120*ms)), named: 10 * ms, want: 10*ms + 274*ms, n: Rolled{Kept: 1}},
		"in the copy, renewed when restored":  {ops: append(granted(10*ms, 11*ms), renewal(230*ms)), named: 10 * ms, n: Rolled{Kept: 1}},
		"granted later":                       {ops: granted(120*ms, 121*ms), named: 120 * ms, want: 200 * ms, certain: true, n: Rolled{Lost: 1}},
		"granted later, renewed all the same": {ops: append(granted(120*ms, 121*ms), renewal(230*ms)), named: 120 * ms, want: 200 * ms, certain: true, n: Rolled{Lost: 1}},
		"granted later, and in line before":   {ops: granted(20*ms, 121*ms), named: 20 * ms, want: 200 * ms, n: Rolled{Lost: 1}},
		"granted while it was copied":         {ops: granted(99*ms, 102*ms), named: 100500 * time.Microsecond, want: 200 * ms, n: Rolled{Lost: 1}},
		"unseen":                              {ops: granted(120*ms, 121*ms), want: 200 * ms, n: Rolled{Lost: 1}},
	} {
		more, n := setBack(c.ops, ttl, roll, func(string, string) (time.Duration, bool) { return c.named, c.named > 0 })
		if n != c.n {
			t.Errorf("%s: counted %+v, want %+v", name, n, c.n)
		}
		if c.want == 0 != (len(more) == 0) {
			t.Errorf("%s: %+v", name, more)
			continue
		}
		all := append(more, c.ops...)
		if len(more) > 0 && (more[0].Call != c.want || more[0].Return != c.want || (more[0].Outcome == history.OK) != c.certain) {
			t.Errorf("%s: released at %v, %s, want %v", name, more[0].Call, more[0].Outcome, c.want)
		}
		second := history.Op{Client: "b", Kind: history.Acquire, Resource: "r", Holder: "b1", Store: "s2", Outcome: history.OK, Token: 600}
		for at, overlaps := range map[time.Duration]bool{210 * ms: c.want == 0 || c.want > 210*ms, c.want + ms: false} {
			second.Call, second.Return, second.Until = at, at, at+100*ms
			if at > 200*ms && len(check.Overlap().Find(append(all, second))) > 0 != overlaps {
				t.Errorf("%s: another at %v: overlap found is %v", name, at, !overlaps)
			}
		}
		if found := check.Ended(ttl).Find(append(all, renewal(300*ms))); (len(found) > 0) != c.certain {
			t.Errorf("%s: extended later: %v", name, found)
		}
	}
	over := append(granted(10*ms, 11*ms), history.Op{Client: "a", Kind: history.Release, Resource: "r", Holder: "a1", Outcome: history.OK, Call: 150 * ms, Return: 151 * ms})
	after := granted(250*ms, 251*ms)
	after[0].Token = 501
	for _, ops := range [][]history.Op{over, after} {
		if more, n := setBack(ops, ttl, roll, func(string, string) (time.Duration, bool) { return 10 * ms, true }); len(more) > 0 || n != (Rolled{}) {
			t.Errorf("over, or of the restored store: %+v, %+v", more, n)
		}
	}
}

// A copy of a store that is down already, and a restoration without a copy, are faults that were not hit.
func TestCopiesThatComeTooLate(t *testing.T) {
	c := copier{store: &store{down: true}, now: func() time.Duration { return 0 }}
	for name, do := range map[string]func() (bool, error){"copy": c.Copy, "restore": c.Restore} {
		if done, err := do(); done || err != nil {
			t.Errorf("%s: %v, %v", name, done, err)
		}
	}
}

// The mark of a run that ended before the copy is in it, so nothing may run again; what ran since may.
func TestMarksOfARollBack(t *testing.T) {
	r := &run{stores: []*store{{rolls: []rollBack{{from: 100 * ms, until: 101 * ms, at: 200 * ms}}}}}
	ran := func(call, ret time.Duration) history.Op {
		return history.Op{Client: "a", Kind: history.Run, Resource: "x", Outcome: history.OK, Call: call, Return: ret}
	}
	again := ran(300*ms, 310*ms)
	for first, found := range map[history.Op]int{ran(50*ms, 60*ms): 1, ran(95*ms, 120*ms): 0, ran(150*ms, 160*ms): 0, ran(190*ms, 250*ms): 0, ran(210*ms, 220*ms): 1} {
		if got := check.Slots().Find(r.marked([]history.Op{first, again})); len(got) != found {
			t.Errorf("first from %v to %v: %v, want %d", first.Call, first.Return, got, found)
		}
	}
}

// A latch that was set or counted after the copy is not judged once the store was rolled back.
func TestLatchesOfARollBack(t *testing.T) {
	r := &run{stores: []*store{{rolls: []rollBack{{from: 100 * ms, until: 101 * ms, at: 200 * ms}}}}}
	for returned, found := range map[time.Duration]int{190 * ms: 1, 250 * ms: 0} {
		ops := []history.Op{
			{Client: "a", Kind: history.Set, Resource: "x", Outcome: history.OK, Call: 110 * ms, Return: 120 * ms, Value: 1},
			{Client: "b", Kind: history.Wait, Resource: "x", Outcome: history.Failed, Call: 130 * ms, Return: returned, Note: check.Opened},
		}
		if got := check.Latches(r.wholeUntil()).Find(ops); len(got) != found {
			t.Errorf("a wait that ended at %v: %v, want %d", returned, got, found)
		}
	}
}

// A single store that was rolled back, or emptied, may grant a request again, with another token; observers see that.
func TestTermsOfARollBack(t *testing.T) {
	for _, c := range []struct {
		name         string
		run          *run
		wiped, ghost bool
	}{
		{"a single store", &run{p: Program{Nodes: 1}, stores: []*store{{rolls: []rollBack{{at: 200 * ms}}}}}, false, true},
		{"a single store, not rolled back", &run{p: Program{Nodes: 1}, stores: []*store{{}}}, false, false},
		{"a single store that was emptied", &run{p: Program{Nodes: 1}, stores: []*store{{}}}, true, true},
		{"a node of a quorum", &run{p: Program{Nodes: 3}, stores: []*store{{}, {rolls: []rollBack{{at: 200 * ms}}}, {}}}, true, false},
	} {
		if got := c.run.observers(c.wiped).Ghosts; got != c.ghost {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// An observer may see a term again, after a time without a leader, on stores of documents.
func TestTermsAgain(t *testing.T) {
	for subject, again := range map[string]bool{"holdfast": false, "holdfast-quorum": false, "holdfast-sentinel": false, "holdfast-postgres": true, "holdfast-etcd": true} {
		if got := (&run{p: Program{Subject: subject}}).observers(false).Again; got != again {
			t.Errorf("%s: %v", subject, got)
		}
	}
}
