package cas

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// A process that loses the race for a document to others proposes its requests to one of them instead, by a
// message, and that one joins them in its next swap: a crowd that joins needs few swaps, and a release
// has few rivals. (Flat combining: Hendler, Incze, Shavit, Tzafrir, SPAA 2010.)
//
// A message may arrive late, when the request has long been granted and released. So a proposal names a
// party, its bar, that was there before the request could join, and that excludes whoever joins after it; and it has an
// effect only on a document in which the bar still does so. The request has had no lease
// until then: at most it is in the line already, where a repetition changes nothing, or it was withdrawn and has a tombstone.

const (
	// gathered is how long a process collects proposals before it swaps for them alone. The line
	// goes on meanwhile, and a swap of its own joins them at once.
	gathered = 50 * time.Millisecond
	// proposalWait is for how long a process waits for the effect of a proposal before it swaps itself.
	proposalWait = 200 * time.Millisecond
	// maxProposals is how many a process collects for a resource, and maxProposal the size in bytes of one.
	maxProposals = 4096
	maxProposal  = 4 << 10
	// barPlace is the place in the line of a bar, if the line is so long: a message has to arrive before
	// its turn is over. All use the same few, so that one swap joins many.
	barPlace  = 12
	barSpread = 3
	// contended is for how long after a conflict a process proposes before it swaps.
	contended = time.Second
)

// proposal is a request that another process joins. Strings that users choose are bytes, which are
// ASCII in a message.
type proposal struct {
	Bar      string        `json:"bar"` // ID of a party
	Resource []byte        `json:"resource"`
	ID       string        `json:"id"`
	Client   string        `json:"client"`
	Name     []byte        `json:"name,omitempty"`
	Host     []byte        `json:"host,omitempty"`
	PID      int           `json:"pid,omitempty"`
	Kind     engine.Kind   `json:"kind"`
	Capacity int           `json:"capacity"`
	Weight   int           `json:"weight"`
	TTL      time.Duration `json:"ttl"`
	Reserve  uint64        `json:"reserve,omitempty"`
	Mark     time.Duration `json:"mark,omitempty"`
	Reason   []byte        `json:"reason,omitempty"`
}

// proposalTo returns the message that proposes a request to the client of a bar, or false if it is too large.
func proposalTo(bar string, r *engine.Request) (Message, bool) {
	body, err := json.Marshal(message{Kind: engine.Resync, Proposal: &proposal{
		Bar: bar, Resource: []byte(r.Resource.Name), ID: r.ID, Client: r.Client.ID, Name: []byte(r.Client.Name), Host: []byte(r.Client.Host), PID: r.Client.PID,
		Kind: r.Kind, Capacity: r.Capacity, Weight: r.Weight, TTL: r.TTL, Reserve: r.Reserve, Mark: r.Mark, Reason: []byte(r.Reason),
	}})
	to := Address{Prefix: r.Resource.Prefix, Client: engine.ClientOf(bar)}
	return Message{To: to, Body: body}, err == nil && len(body) <= maxProposal
}

// request returns the request of a proposal.
func (p *proposal) request(prefix string) engine.Request {
	return engine.Request{
		Resource: engine.Resource{Prefix: prefix, Name: string(p.Resource)}, ID: p.ID,
		Client: &engine.Client{ID: p.Client, Name: string(p.Name), Host: string(p.Host), PID: p.PID},
		Kind:   p.Kind, Capacity: p.Capacity, Weight: p.Weight, TTL: p.TTL, Queue: true, Reserve: p.Reserve, Mark: p.Mark, Reason: string(p.Reason),
	}
}

// proposed takes a proposal that has arrived. It is dropped if this process has forgotten the resource.
func (e *Engine) proposed(prefix string, p *proposal) {
	r := p.request(prefix)
	acquire := acquisition(r)
	op := &operation{id: r.ID, line: r.ID, client: r.Client, joins: true, proposed: p, apply: func(q *queue.Queue, at instant) queue.Answer {
		if !q.Bars(p.Bar) {
			return queue.Answer{Status: queue.NotHeld}
		}
		return acquire(q, at)
	}}
	op.begin(context.Background())
	key := Key{Space: Resources, Prefix: prefix, Name: r.Resource.Name}
	if w := e.writers.propose(key, op); w != nil {
		time.AfterFunc(gathered, func() {
			if e.writers.urge(w) {
				e.write(w)
			}
		})
	}
}

// propose proposes operations to another process, and reports whether it did. It returns after a read: when
// the operations have had their effect, when they cannot have it any more, or when others have come.
func (e *Engine) propose(w *writer, ops []*operation, toHolder bool) (bool, error) {
	bar := w.bar(ops, toHolder)
	if bar == "" {
		return false, nil
	}
	messages := make(map[Address][]Message)
	for _, op := range ops {
		m, ok := proposalTo(bar, op.request)
		if !ok {
			return false, nil
		}
		from := Address{Prefix: w.key.Prefix, Client: op.request.Client.ID}
		messages[from] = append(messages[from], m)
	}
	joined := e.proposing.begin(ops[0].id)
	defer e.proposing.end(ops[0].id)
	for from, all := range messages {
		if !e.send(from, all) {
			return false, nil
		}
	}
	sent := time.Now()
	for pause := w.trip; ; pause += pause / 2 {
		select {
		case <-joined:
			joined = nil
		case <-time.After(pause):
		}
		if err := e.read(w); err != nil {
			return false, err
		}
		waits := slices.ContainsFunc(ops, func(op *operation) bool { return !w.parsed.has(op.id) })
		if !waits || !w.parsed.bars(bar) || time.Since(sent) > proposalWait || e.writers.waits(w) {
			return true, nil
		}
	}
}

// proposing are the IDs that this process has proposed, with a channel that is closed by the first message to each.
type proposing struct {
	mu  sync.Mutex
	ids map[string]chan struct{}
}

func (p *proposing) begin(id string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan struct{})
	p.ids[id] = c
	return c
}

// end reports whether the ID had been proposed.
func (p *proposing) end(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.ids[id]
	if ok {
		close(c)
		delete(p.ids, id)
	}
	return ok
}

// bar returns the ID of a waiter of another process that bars the operations, or if there is no waiter and it may be
// a holder, of that. It returns "" if there is none, or not all operations can be proposed. The process of a waiter
// receives messages; that of a holder may not.
func (w *writer) bar(ops []*operation, holder bool) string {
	if w.parsed == nil {
		return ""
	}
	own := make(map[string]bool)
	for _, op := range ops {
		if op.request == nil || w.parsed.has(op.id) {
			return ""
		}
		own[op.client.ID] = true
	}
	line := w.parsed.state.Waiters
	line = line[:min(len(line), barPlace)]
	var all []string
	for _, party := range line[max(0, len(line)-barSpread):] {
		all = append(all, party.ID)
	}
	if holder && len(all) == 0 {
		for _, h := range w.parsed.state.Holders {
			all = append(all, h.ID)
		}
	}
	all = slices.DeleteFunc(all, func(id string) bool { return own[engine.ClientOf(id)] || !w.parsed.bars(id) })
	if len(all) == 0 {
		return ""
	}
	return all[rand.N(len(all))]
}

// bars is what queue.Queue.Bars reports of the document's queue.
func (d *document) bars(id string) bool {
	if d == nil {
		return false
	}
	if i := slices.IndexFunc(d.state.Waiters, func(w queue.Waiter) bool { return w.ID == id }); i >= 0 {
		return d.state.Waiters[i].Place == 0
	}
	i := slices.IndexFunc(d.state.Holders, func(h queue.Holder) bool { return h.ID == id })
	return i >= 0 && d.state.Holders[i].Weight == d.state.Capacity
}
