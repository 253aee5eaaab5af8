package live

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Each turn has one end in the history in the store. One whose release was not confirmed may be recorded as a loss.
func TestEndsAgree(t *testing.T) {
	for _, c := range []struct {
		name      string
		seen, got ends
		agrees    bool
	}{
		{"released", ends{released: 1}, ends{released: 1}, true},
		{"lost", ends{lost: 1}, ends{lost: 1}, true},
		{"unclear, released", ends{unclear: 1}, ends{released: 1}, true},
		{"unclear, lost", ends{unclear: 1}, ends{lost: 1}, true},
		{"readers of one lease", ends{released: 3, unclear: 1}, ends{released: 3, lost: 1}, true},
		{"missing", ends{released: 1}, ends{}, false},
		{"twice", ends{released: 1}, ends{released: 2}, false},
		{"lost, recorded as released", ends{lost: 1}, ends{released: 1}, false},
		{"released, recorded as lost", ends{released: 1}, ends{lost: 1}, false},
		{"of no lease", ends{}, ends{released: 1}, false},
	} {
		if c.seen.agrees(c.got) != c.agrees {
			t.Errorf("%s: %+v and %+v: want agreement %v", c.name, c.seen, c.got, c.agrees)
		}
	}
	of := turn{"w1", "x", 7}
	var ops []history.Op
	for _, o := range []history.Outcome{history.OK, history.OK, history.Failed, history.Unknown} {
		ops = append(ops, history.Op{Client: "w1", Kind: history.Release, Resource: "x", Token: 7, Outcome: o})
	}
	if got := *endsOf(ops).of(of); got != (ends{released: 2, lost: 1, unclear: 1}) {
		t.Errorf("%+v", got)
	}
}
