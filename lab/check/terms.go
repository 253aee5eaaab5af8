package check

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Terms: an observer of an election sees each leader as it was elected, with its token and with its name as the value, not
// before it campaigned, and the tokens rise: no term follows a later one.
func Terms(may Observers) Check {
	return Check{"terms", func(ops []history.Op) []Violation { return terms(ops, may) }}
}

// Observers is what observers of an election may see besides, on some stores.
type Observers struct {
	Again   bool // a term again, after a time without a leader
	Ballots bool // a candidate with the token of an earlier ballot, which a majority may have granted
	Ghosts  bool // a candidate with another token: a new master had its request, and not what became of it, and granted it again
}

func terms(ops []history.Op, may Observers) (out []Violation) {
	type id struct{ resource, store string }
	type observer struct{ client, resource string }
	elected, last := map[id]history.Op{}, map[observer]history.Op{}
	for _, op := range ops {
		if op.Kind == history.Acquire && op.Outcome == history.OK && op.Store != "" {
			elected[id{op.Resource, op.Store}] = op
		}
	}
	for _, op := range inOrder(slices.Clone(ops), history.Seen) {
		if op.Token == 0 {
			continue
		}
		say := func(format string, args ...any) {
			out = append(out, Violation{"terms", op.Resource, op.Call,
				fmt.Sprintf("%s saw %s lead with token %d: ", op.Client, op.Note, op.Token) + fmt.Sprintf(format, args...)})
		}
		who := observer{op.Client, op.Resource}
		if before := last[who]; op.Token < before.Token || op.Token == before.Token && (!may.Again || op.Store != before.Store) {
			say("after it had seen %s with %d", before.Note, before.Token)
		}
		last[who] = op
		if term, ok := elected[id{op.Resource, op.Store}]; ok {
			switch {
			case term.Token != op.Token && !may.Ghosts && !(may.Ballots && op.Token < term.Token) || term.Client != op.Note:
				say("that is %s with token %d", term.Client, term.Token)
			case op.Return < term.Call:
				say("it campaigned at %v", term.Call)
			}
		}
	}
	return out
}
