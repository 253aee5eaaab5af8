package live

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// recordsHistory draws whether the clients of a program record a history. It draws from numbers of its own. PostgreSQL
// does not wait for the disk when it commits events, so a server that is killed loses the latest.
func recordsHistory(p Program) bool {
	d := drawer{rand.New(rand.NewPCG(p.Seed, 0x686973746f7279))}
	return p.holdfast() && p.Subject != "holdfast-postgres" && d.IntN(2) == 0
}

// turn is what a client did with a lease. Readers that share a lease have several of one key.
type turn struct {
	client, resource string
	token            uint64
}

// ends counts how turns of one key ended.
type ends struct{ released, lost, unclear int }

// ended counts the ends of all turns.
type ended map[turn]*ends

// of returns the counts of a key.
func (e ended) of(key turn) *ends {
	if e[key] == nil {
		e[key] = new(ends)
	}
	return e[key]
}

// compareHistory reads what the clients recorded in the stores, as holdfast log does, and compares it with the history
// of the lab: each lease of a client that lived until the end has one event of its end, and each such event is of a
// lease. A store that lost its data has lost its history; a client that had to drop events says so.
func (r *run) compareHistory(ctx context.Context) error {
	if !r.p.History {
		return nil
	}
	if slices.ContainsFunc(r.stores, func(s *store) bool { return len(s.wipes) > 0 }) {
		return nil
	}
	recorded, dropped, err := recordedEnds(ctx, r.urls(), r.prefix)
	if err != nil {
		return err
	}
	compared := map[string]bool{}
	for _, c := range r.workers {
		compared[c.name] = c.deadSince() == 0 && !dropped[c.name]
	}
	for _, x := range r.p.Resources {
		compared[x.Name] = x.locked()
	}
	seen := endsOf(r.rec.Ops())
	for key := range recorded {
		seen.of(key)
	}
	for key, want := range seen {
		if !compared[key.client] || !compared[key.resource] {
			continue
		}
		r.logged++
		if got := recorded.of(key); !want.agrees(*got) {
			r.violated("history", key.resource, "%s, token %d: the history in the store has %+v; it was %+v", key.client, key.token, *got, *want)
		}
	}
	return nil
}

// agrees reports whether what a client recorded is what the lab saw. A release whose outcome is unknown may be recorded as
// a loss.
func (e ends) agrees(got ends) bool {
	return got.released+got.lost == e.released+e.lost+e.unclear && got.released >= e.released && got.lost >= e.lost
}

// endsOf returns how the leases of a history of the lab ended.
func endsOf(ops []history.Op) ended {
	all := ended{}
	for _, op := range ops {
		if op.Kind != history.Release {
			continue
		}
		switch e := all.of(turn{op.Client, op.Resource, op.Token}); op.Outcome {
		case history.OK:
			e.released++
		case history.Failed:
			e.lost++
		default:
			e.unclear++
		}
	}
	return all
}

// recordedEnds reads the history in the stores, and which clients have dropped events.
func recordedEnds(ctx context.Context, urls []string, prefix string) (all ended, dropped map[string]bool, err error) {
	c, end, err := openObserver(urls, prefix)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	all, dropped = ended{}, map[string]bool{}
	for event, err := range c.History(ctx, holdfast.HistoryQuery{}) {
		if err != nil {
			return nil, nil, fmt.Errorf("history: %w", err)
		}
		key := turn{event.Name, event.Resource, event.Token}
		switch event.Event {
		case holdfast.HistoryReleased:
			all.of(key).released++
		case holdfast.HistoryLost:
			all.of(key).lost++
		case holdfast.HistoryDropped:
			dropped[event.Name] = true
		}
	}
	return all, dropped, nil
}
