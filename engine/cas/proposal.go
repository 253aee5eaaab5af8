package cas

import (
	"context"
	"encoding/json"
	"maps"
	"math"
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
// A message may arrive late, when the request has long been granted and released, which leaves no tombstone. So a proposal names a
// waiter, its bar, that was in the line before the request could join, and it has an effect only on a document in which the bar
// still waits, or holds the whole capacity: whoever joined after the bar has had no lease until then. A
// waiter that was dropped may join again under its ID; only its own process sees that, by the time at which
// it joined, and a proposal has that time too. A request that was proposed and is given up leaves a tombstone.

const (
	// gatherTrips is for how many round trips a process collects proposals before it looks whether the line stands still. Then
	// it swaps for them alone. A swap of its own joins them at once.
	gatherTrips = 4
	// longestGather is for how many round trips it collects them at most.
	longestGather = 12
	// proposalTrips is for how many round trips a process waits for the effect of a proposal before it swaps itself: others
	// that come later pass it meanwhile.
	proposalTrips = 16
	// proposalLife is after what time a proposal does not arrive any more.
	proposalLife = 10 * time.Minute
	// vainProposals is how many proposals without an effect a process makes for operations.
	vainProposals = 2
	// longestTTL is the longest one of a lease.
	longestTTL = 24 * time.Hour
	// maxProposals is how many a process collects for a resource, and maxProposal the size in bytes of one.
	maxProposals = 4096
	maxProposal  = 4 << 10
	// barPlace and barSpread are the places in the line of bars, if it is so long: the last of them, and how many. A message
	// has to arrive before the turn of its bar is over, and that turn comes before the proposal is too old.
	barPlace  = 6
	barSpread = 4
	// sharingPlace and sharingSpread are those in a line for less than the whole capacity: the proposal has to be joined
	// before the turn of its bar begins.
	sharingPlace  = 12
	sharingSpread = 3
)

// proposal is a request that another process joins. Strings that users choose are bytes, which are
// ASCII in a message.
type proposal struct {
	Bar      string        `json:"bar"`   // ID of a waiter
	Since    queue.Time    `json:"since"` // when the bar joined the line
	Last     uint64        `json:"last"`  // the last token of the resource, as last seen
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

// proposalTo returns the message that proposes a request to the client of a bar, or false if it is too large. A
// program that knows no proposals takes it for a Resync of the bar.
func proposalTo(bar queue.Waiter, last uint64, r *engine.Request) (Message, bool) {
	body, err := json.Marshal(message{Kind: engine.Resync, ID: bar.ID, Proposal: &proposal{
		Bar: bar.ID, Since: bar.Since, Last: last, Resource: []byte(r.Resource.Name), ID: r.ID, Client: r.Client.ID, Name: []byte(r.Client.Name), Host: []byte(r.Client.Host), PID: r.Client.PID,
		Kind: r.Kind, Capacity: r.Capacity, Weight: r.Weight, TTL: r.TTL, Reserve: r.Reserve, Mark: r.Mark, Reason: []byte(r.Reason),
	}})
	to := Address{Prefix: r.Resource.Prefix, Client: engine.ClientOf(bar.ID)}
	return Message{To: to, Body: body}, err == nil && len(body) <= maxProposal
}

// valid reports whether a proposal can be of a client of this package: what is not may make a document unreadable.
func (p *proposal) valid() bool {
	return p.Bar != "" && p.ID != "" && p.ID != p.Bar && p.Client == engine.ClientOf(p.ID) && p.Kind != "" &&
		1 <= p.Weight && p.Weight <= p.Capacity && p.Capacity <= math.MaxInt32 && p.Reserve <= math.MaxUint32 &&
		0 < p.TTL && p.TTL <= longestTTL && 0 <= p.Mark
}

// request returns the request of a proposal.
func (p *proposal) request(prefix string) engine.Request {
	return engine.Request{
		Resource: engine.Resource{Prefix: prefix, Name: string(p.Resource)}, ID: p.ID,
		Client: &engine.Client{ID: p.Client, Name: string(p.Name), Host: string(p.Host), PID: p.PID},
		Kind:   p.Kind, Capacity: p.Capacity, Weight: p.Weight, TTL: p.TTL, Queue: true, Reserve: p.Reserve, Mark: p.Mark, Reason: string(p.Reason),
	}
}

// proposed takes a proposal that has arrived. It is dropped if this process does not use the resource.
func (e *Engine) proposed(prefix string, p *proposal) {
	if !p.valid() {
		return
	}
	r := p.request(prefix)
	key := Key{Space: Resources, Prefix: prefix, Name: r.Resource.Name}
	acquire := acquisition(r)
	op := &operation{id: r.ID, line: r.ID, client: r.Client, proposed: p}
	op.apply = func(q *queue.Queue, at instant) queue.Answer {
		tidied := q.Tidy(at.now) // so that the request cannot be granted now
		if op.writer.joined[p.Bar] != p.Since || !q.Bars(p.Bar, p.Since) {
			tidied.Status, tidied.Cause = queue.NotHeld, queue.Deleted
			return tidied
		}
		a := acquire(q, at)
		a.Grants, a.Called, a.Dropped = append(tidied.Grants, a.Grants...), append(tidied.Called, a.Called...), append(tidied.Dropped, a.Dropped...)
		a.Left = max(a.Left, tidied.Left)
		return a
	}
	op.begin(context.Background())
	if w, pace := e.writers.propose(key, op); w != nil {
		e.gatherFor(w, gatherTrips*pace)
	}
}

// gatherFor lets the proposals of a writer wait for its next operation, or for a duration.
func (e *Engine) gatherFor(w *writer, d time.Duration) {
	time.AfterFunc(d, func() {
		if e.writers.urge(w) {
			e.write(w)
		}
	})
}

// gatherOn puts proposals off that have waited, and reports whether it did: while the line moves, a swap for them
// alone loses races, or a release loses one to it, and the turn of this process is near. It returns after a read.
func (e *Engine) gatherOn(w *writer, proposals []*operation, fresh bool) (bool, error) {
	if !fresh {
		if err := e.read(w); err != nil {
			return false, err
		}
	}
	last := w.parsed.last()
	near := time.Since(proposals[0].sent) < longestGather*w.pace() && slices.ContainsFunc(proposals, func(op *operation) bool {
		return op.proposed.Last < last && w.parsed.barsInTurn(op.proposed.Bar)
	})
	for _, op := range proposals {
		op.proposed.Last = last
	}
	if near && e.writers.putBack(w, proposals) {
		e.gatherFor(w, gatherTrips*w.pace())
	}
	return near, nil
}

// propose proposes operations to another process, and reports whether it did. It returns after a read: when
// the operations have had their effect, when they cannot have it any more, or when others have come.
func (e *Engine) propose(w *writer, ops []*operation) (bool, error) {
	bar := w.bar(ops, e.paced != nil)
	if bar.ID == "" {
		return false, nil
	}
	messages := make(map[Address][]Message)
	for _, op := range ops {
		m, ok := proposalTo(bar, w.parsed.last(), op.request)
		if !ok {
			return false, nil
		}
		from := Address{Prefix: w.key.Prefix, Client: op.request.Client.ID}
		messages[from] = append(messages[from], m)
	}
	joined := e.proposing.begin(ops)
	defer e.proposing.end(ops[0].id)
	for from, all := range messages {
		if !e.send(from, all) {
			return false, nil
		}
	}
	sent, last := time.Now(), w.parsed.last()
	for pause := proposalTrips / 2 * w.pace(); ; {
		select {
		case <-joined:
			joined = nil
		case <-w.arrived:
		case <-time.After(pause):
		}
		if err := e.read(w); err != nil {
			return false, err
		}
		have := !slices.ContainsFunc(ops, func(op *operation) bool { return !w.parsed.has(op.id) })
		late := time.Since(sent) > proposalTrips*w.pace() || !w.parsed.bars(bar.ID)
		if late && !have {
			w.vain++
		}
		if have || late { // in a line that stands still, a swap of this process would have been the only one
			w.contended = w.parsed.last() != last
		}
		if have || late || e.writers.waits(w) {
			return true, nil
		}
	}
}

// proposing are the requests that this process has proposed.
type proposing struct {
	mu      sync.Mutex
	waiting map[string]chan struct{} // closed by the first message to the ID
	sent    map[string]time.Time     // when; until the request ends, or a proposal cannot arrive any more
	sweepAt int
}

// begin notes that IDs are proposed. The channel is closed by the first message to one of them.
func (p *proposing) begin(ops []*operation) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan struct{})
	p.waiting[ops[0].id] = c
	for _, op := range ops {
		p.sent[op.id] = time.Now()
	}
	if len(p.sent) > p.sweepAt {
		maps.DeleteFunc(p.sent, func(_ string, at time.Time) bool { return time.Since(at) > proposalLife })
		p.sweepAt = 2*len(p.sent) + 64
	}
	return c
}

// end reports whether a process waits for the effect of a proposal of an ID, which it does no longer.
func (p *proposing) end(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.waiting[id]
	if ok {
		close(c)
		delete(p.waiting, id)
	}
	return ok
}

// has reports whether an ID was proposed, so that it has to leave a tombstone when it is given up.
func (p *proposing) has(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.sent[id]
	return ok
}

// forget is called when an ID has left its tombstone.
func (p *proposing) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sent, id)
}

// bar returns a waiter of another process that bars the operations, or none if not all of them can be proposed. On a
// store that looks for messages it is the first, whose client looks most often.
func (w *writer) bar(ops []*operation, first bool) (bar queue.Waiter) {
	if w.parsed == nil || w.vain >= vainProposals {
		return bar
	}
	own := make(map[string]bool)
	for _, op := range ops {
		if op.request == nil || w.parsed.has(op.id) {
			return bar
		}
		own[op.client.ID] = true
	}
	line := w.parsed.state.Waiters
	place, spread := barPlace, barSpread
	switch {
	case first:
		place, spread = 1, 1
	case slices.ContainsFunc(line[:min(len(line), barPlace)], func(p queue.Waiter) bool { return p.Weight < w.parsed.state.Capacity }):
		place, spread = sharingPlace, sharingSpread
	}
	to := min(len(line), place)
	from := max(0, to-spread)
	all := slices.Clone(line[from:to])
	all = slices.DeleteFunc(all, func(p queue.Waiter) bool { return own[engine.ClientOf(p.ID)] || p.Place != 0 })
	if len(all) == 0 {
		return bar
	}
	return all[rand.N(len(all))]
}

// last returns the last token of the resource.
func (d *document) last() uint64 {
	if d == nil {
		return 0
	}
	return d.state.Last
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

// barsInTurn reports whether a bar still bars when it has its turn: its lease has the whole capacity then.
func (d *document) barsInTurn(id string) bool {
	return d.bars(id) && !slices.ContainsFunc(d.state.Waiters, func(w queue.Waiter) bool { return w.ID == id && w.Weight < d.state.Capacity })
}
