package memory

import (
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// retention is how long the tombstones and the last token of a resource are
// kept after its last use.
const retention = 10 * time.Minute

// resource is one queue and the clients of its parties. The engine's mutex
// guards it.
type resource struct {
	queue   *queue.Queue
	clients map[string]*engine.Client // by holder ID
	sweepAt int                       // size of clients at which absent ones are removed
}

func (e *Engine) newResource(name engine.Resource, now queue.Time) *resource {
	p := translate.Params(retention)
	p.Deaf = func(id string) bool { return e.listeners[address{name.Prefix, engine.ClientOf(id)}] == nil }
	return &resource{
		queue:   queue.New(p, now),
		clients: make(map[string]*engine.Client),
	}
}

// open returns the state of a resource and creates it if there is none.
func (e *Engine) open(name engine.Resource, now queue.Time) *resource {
	if res := e.resources[name]; res != nil && !res.queue.Forgettable(now) {
		return res
	}
	if len(e.resources) >= e.sweepAt {
		for other, res := range e.resources {
			if res.queue.Forgettable(now) {
				delete(e.resources, other)
			}
		}
		e.sweepAt = 2*len(e.resources) + 64
	}
	res := e.newResource(name, now)
	e.resources[name] = res
	return res
}

// look returns the state of a resource for an operation that need not store
// one.
func (e *Engine) look(name engine.Resource, now queue.Time) *resource {
	if res := e.resources[name]; res != nil && !res.queue.Forgettable(now) {
		return res
	}
	return e.newResource(name, now)
}

// meet stores the client of a holder ID. Parties that neither hold nor wait are
// removed when the map has doubled; if one returns, it is stored again.
func (r *resource) meet(id string, c *engine.Client, now queue.Time) {
	if c == nil {
		return
	}
	r.clients[id] = c
	if len(r.clients) < r.sweepAt {
		return
	}
	live := make(map[string]*engine.Client)
	s := r.queue.Snapshot(now)
	if by := s.MarkedBy.ID; by != "" {
		live[by] = r.clients[by]
	}
	for _, h := range s.Holders {
		live[h.ID] = r.clients[h.ID]
	}
	for _, w := range s.Waiters {
		live[w.ID] = r.clients[w.ID]
	}
	r.clients = live
	r.sweepAt = 2*len(live) + 16
}

// client returns the client of a holder ID; at least its ID is set.
func (r *resource) client(holderID string) engine.Client {
	if holderID == "" {
		return engine.Client{}
	}
	if c := r.clients[holderID]; c != nil {
		return *c
	}
	return engine.Client{ID: engine.ClientOf(holderID)}
}

// list returns a snapshot of each resource that is wanted.
func (e *Engine) list(prefix, pattern string, wanted func(engine.Snapshot) bool) []engine.Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := clock()
	var all []engine.Snapshot
	for name, res := range e.resources {
		if name.Prefix != prefix || !engine.Match(pattern, name.Name) {
			continue
		}
		s := translate.Snapshot(res.queue, name, now, res.client)
		if s.Dead = nil; wanted(s) {
			all = append(all, s)
		}
	}
	return all
}
