package quorum

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

// A turn that has ended is removed from the queue of each node that may have it, once, and after its
// last ballot is answered. A node executes concurrent ballots in any order, and answers arrive in
// any order. A lost ballot may arrive later, so the node has to refuse it.
func TestEndedTurnIsRemovedFromEachNode(t *testing.T) {
	const busy, granted, marked = engine.Busy, engine.Granted, engine.Marked
	type answer struct {
		status engine.Status
		err    error
	}
	yes := func(s engine.Status) answer { return answer{status: s} }
	lost := answer{err: fmt.Errorf("%w: no answer", engine.ErrUnavailable)}
	unsent := answer{err: errNotCalled}
	for _, c := range []struct {
		name    string
		rounds  [][]answer // those of one round are under way together
		out     bool
		refuses bool
	}{
		{"granted", [][]answer{{yes(granted)}}, false, false},
		{"waits", [][]answer{{yes(busy)}}, true, false},
		{"waited, then granted", [][]answer{{yes(busy)}, {yes(granted)}}, false, false},
		{"waited, then marked", [][]answer{{yes(busy)}, {yes(marked)}}, false, false},
		{"outbid", [][]answer{{yes(engine.Outbid)}}, false, false},
		{"both at once, busy comes last", [][]answer{{yes(granted), yes(busy)}}, true, false},
		{"both at once, busy comes first", [][]answer{{yes(busy), yes(granted)}}, true, false},
		{"both at once, and marked", [][]answer{{yes(busy), yes(marked)}}, true, false},
		{"both at once, then granted alone", [][]answer{{yes(busy), yes(granted)}, {yes(granted)}}, false, false},
		{"lost", [][]answer{{lost}}, true, true},
		{"lost, then granted", [][]answer{{lost}, {yes(granted)}}, true, true},
		{"lost, then marked", [][]answer{{lost}, {yes(marked)}}, true, true},
		{"not sent", [][]answer{{unsent}}, false, false},
		{"waits, then not sent", [][]answer{{yes(busy)}, {unsent}}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &node{}
			x := &turn{e: &Engine{nodes: []*node{n}}, on: make([]turnOnNode, 1)}
			for _, answers := range c.rounds {
				for range answers {
					x.beginBallot(x.e.nodes)
				}
				for i, a := range answers {
					x.recordAnswer(n, engine.Answer{Status: a.status}, a.err)
					if left := len(answers) - i - 1; left > 0 && x.on[0].remove() {
						t.Errorf("taken out with %d ballots under way", left)
					}
				}
			}
			takenOut := func() bool {
				_, on := (&attemptState{turn: x}).takeTurn(false)
				return len(on) > 0
			}
			if out := takenOut(); out != c.out {
				t.Errorf("taken out: %v, want %v", out, c.out)
			} else if out && x.removal(n).Withdraw != c.refuses {
				t.Errorf("the node refuses late ballots: %v, want %v", !c.refuses, c.refuses)
			}
			if takenOut() {
				t.Error("taken out twice")
			}
		})
	}
}
