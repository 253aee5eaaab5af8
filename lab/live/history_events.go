package live

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// turn is what a client did with a lease. Readers that share a lease have several of one key.
type turn struct {
	resource string
	token    uint64
}

// written is what one client has recorded in the stores.
type written struct {
	ends, grants map[turn][]holdfast.HistoryEvent
	waits        map[string][]holdfast.HistoryEvent // that ended without a lease, by resource
	breaks       []holdfast.HistoryEvent
	dropped      int
}

// writtenBy sorts the events of a history by client.
func writtenBy(events []holdfast.HistoryEvent) map[string]written {
	all := map[string]written{}
	for _, e := range events {
		w, ok := all[e.Name]
		if !ok {
			w = written{ends: map[turn][]holdfast.HistoryEvent{}, grants: map[turn][]holdfast.HistoryEvent{}, waits: map[string][]holdfast.HistoryEvent{}}
		}
		key := turn{e.Resource, e.Token}
		switch e.Event {
		case holdfast.HistoryReleased, holdfast.HistoryLost:
			w.ends[key] = append(w.ends[key], e)
		case holdfast.HistoryGranted:
			w.grants[key] = append(w.grants[key], e)
		case holdfast.HistoryWithdrawn:
			w.waits[e.Resource] = append(w.waits[e.Resource], e)
		case holdfast.HistoryBroke:
			w.breaks = append(w.breaks, e)
		case holdfast.HistoryDropped:
			w.dropped += e.Count
		}
		all[e.Name] = w
	}
	return all
}

// lifetime is what the lab saw of a lease.
type lifetime struct {
	acquire history.Op
	release history.Op    // its Kind is "" if the client was killed before
	lost    time.Duration // when the client was notified of its loss; 0: it was not
}

// observed is what the lab saw of one client.
type observed struct {
	died   time.Duration // 0: it lived to the end
	leases map[turn][]*lifetime
	waits  map[string][]history.Op // that ended without a lease, by resource
}

// observedOf selects from a history of the lab what a client did.
func observedOf(ops []history.Op, client string, died time.Duration) observed {
	s, by := observed{died, map[turn][]*lifetime{}, map[string][]history.Op{}}, map[string]*lifetime{}
	for _, op := range ops {
		if op.Client != client {
			continue
		}
		switch x := by[op.Holder]; {
		case op.Kind == history.Acquire && op.Outcome == history.OK:
			x = &lifetime{acquire: op}
			by[op.Holder] = x
			s.leases[turn{op.Resource, op.Token}] = append(s.leases[turn{op.Resource, op.Token}], x)
		case op.Kind == history.Acquire && !op.Try:
			s.waits[op.Resource] = append(s.waits[op.Resource], op)
		case op.Kind == history.Lost && x != nil:
			x.lost = op.Call
		case op.Kind == history.Release && x != nil:
			x.release = op
		}
	}
	return s
}
