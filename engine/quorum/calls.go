package quorum

import (
	"context"
	"sync"
	"time"
)

// calls makes the calls of the nodes, in goroutines that are used again: a call needs a
// deep stack, and to grow one costs as much as the round trip.
type calls struct {
	mu       sync.Mutex // guards the nodes, too
	nodes    []*node
	clients  map[string]*client // of which something is under way
	jobs     chan *call         // for idle goroutines; nil ends one
	idle     int
	unused   int // the fewest that were idle since the last sweep
	sweeping bool
}

const (
	// sweep is how often idle goroutines are looked for; each lives for one to two.
	sweep = 25 * time.Millisecond
	// mostIdle is how many goroutines are kept.
	mostIdle = 512
)

// client is what is under way for a client of the engine.
type client struct {
	id     string
	ctx    context.Context // ends when the client has left
	cancel context.CancelFunc
	total  int           // calls under way, and in outboxes
	on     []int         // the same by node
	gone   chan struct{} // closed when there are none; made by Leave
}

// call is a call of one node.
type call struct {
	client *client
	n      *node
	ctx    context.Context              // unless it is a probe
	make   func(context.Context, *call) // notes how it went
	drop   func(*node)                  // it is not made

	posted time.Time
	until  time.Time // until when it is made again if the node does not answer; zero: never
	again  bool      // the node has not answered
	over   bool      // it is to be dropped

	sent  time.Time
	probe bool // the node was away
}

// begin counts a call of a client that may be new. The mutex is held.
func (p *calls) begin(id string, c *call) {
	w := p.clients[id]
	if w == nil || w.ctx.Err() != nil && c.until.IsZero() {
		w = &client{id: id, on: make([]int, len(p.nodes))}
		w.ctx, w.cancel = context.WithCancel(context.Background())
		p.clients[id] = w
	}
	c.client = w
	w.total++
	w.on[c.n.index]++
}

// end notes that nothing is left to do about a call. The mutex is held.
func (p *calls) end(c *call) {
	w := c.client
	w.on[c.n.index]--
	if w.total--; w.total > 0 {
		return
	}
	if w.gone != nil {
		close(w.gone)
	}
	if p.clients[w.id] == w {
		delete(p.clients, w.id)
	}
}

// start makes a call, of which the node has taken note. The mutex is held.
func (p *calls) start(c *call) {
	if p.idle == 0 {
		go p.work(c)
		return
	}
	p.idle--
	p.unused = min(p.unused, p.idle)
	p.jobs <- c
}

func (p *calls) work(c *call) {
	for c != nil {
		switch {
		case c.over:
			c.drop(c.n)
		case c.probe:
			ctx, cancel := context.WithTimeout(c.client.ctx, patience)
			c.make(ctx, c)
			cancel()
		default:
			c.make(c.ctx, c)
		}
		next, more := p.next(c)
		if more {
			next = <-p.jobs
		}
		c = next
	}
}

// note takes note of how a call went, before anybody else does.
func (p *calls) note(c *call, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.n.end(c, err)
}

// next returns the next call for a goroutine: one that the same node has waited for, or
// one that comes.
func (p *calls) next(c *call) (next *call, wait bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.again {
		p.keep(c)
	} else {
		p.end(c)
	}
	if next = p.take(c.n); next != nil {
		// A node that answers again gets more and more at a time.
		if !next.over && c.n.open < atATime {
			if another := p.take(c.n); another != nil {
				p.start(another)
			}
		}
		return next, false
	}
	if c.client.id == "" || c.client.ctx.Err() != nil || p.idle == mostIdle {
		return nil, false // nobody leaves for the client ""
	}
	p.idle++
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(sweep, p.sweep)
	}
	return nil, true
}

// sweep ends the goroutines that were idle since the last one. A timer for each would
// cost every call more than it saves.
func (p *calls) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dismiss(p.unused)
	p.unused = p.idle
	p.sweeping = p.idle > 0
	if p.sweeping {
		time.AfterFunc(sweep, p.sweep)
	}
}

// dismiss ends idle goroutines. The mutex is held.
func (p *calls) dismiss(n int) {
	for range n {
		p.idle--
		p.jobs <- nil
	}
	p.unused = min(p.unused, p.idle)
}
