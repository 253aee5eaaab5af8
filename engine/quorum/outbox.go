package quorum

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// insistence bounds how long a node is told something until it answers. A lease ends
	// by its TTL anyway; what matters is that it does not come up later.
	insistence = 30 * time.Second
	// mostOwed is how many calls an outbox has at most; what is above it is left to the
	// TTL.
	mostOwed = 1024
	// mostAsked is up to how many of them a question waits with; further ones are not asked.
	mostAsked = 128
	// atATime is how many calls from its outbox a node gets at a time.
	atATime = 16
	// mostOpen is how many calls of a node that does not answer may be under way.
	mostOpen = 256
	// lead is how many calls a node may be behind.
	lead = 2
)

// send makes a call of each node, of which so many are needed. On one that is slow, and
// behind the others, the call waits until an earlier one is over. So a node that hangs
// gathers neither goroutines nor connections, and a slow one is not left out.
func (p *calls) send(id string, to []*node, need int, each call) {
	var leftOut []*node
	each.posted = time.Now()
	all := slices.Repeat([]call{each}, len(to))
	p.mu.Lock()
	many := ahead(to, need)
	for i, n := range to {
		c := &all[i]
		c.n = n
		switch h := n.health(c.posted); {
		case h == well, n.open < many, h == away && n.probes == 0:
			p.begin(id, c)
			n.begin(c, c.posted)
			p.start(c)
		case h == slow && len(n.outbox) < mostAsked:
			p.begin(id, c)
			p.keep(c)
		default:
			leftOut = append(leftOut, n)
		}
	}
	p.mu.Unlock()
	for _, n := range leftOut {
		each.drop(n)
	}
}

// ahead is how many calls a node may have open: twice as many as those that are needed
// have, and some.
func ahead(to []*node, need int) int {
	if len(to) <= need {
		return mostOpen
	}
	var few [8]int
	open := few[:0]
	for _, n := range to {
		open = append(open, n.open)
	}
	slices.Sort(open)
	return min(lead+2*open[max(0, need-1)], mostOpen)
}

// owe tells a node something in the background, until it has answered, the time for it is
// over or the client has left. Of a client that has left already only a node that is well
// is told, once. It returns false if the node is not told; drop is called if it is given
// up later.
func (p *calls) owe(id string, n *node, tell func(context.Context, *node) error, drop func(*node)) bool {
	now := time.Now()
	c := &call{n: n, ctx: context.Background(), drop: drop, posted: now, until: now.Add(insistence)}
	c.make = func(ctx context.Context, c *call) {
		err := tell(ctx, c.n)
		p.note(c, err)
		c.again = unavailable(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h := n.health(now)
	w := p.clients[id]
	waits := h == slow && n.open >= atATime || h == away && n.probes+len(n.outbox) > 0
	if waits && len(n.outbox) >= mostOwed || h != well && w != nil && w.ctx.Err() != nil {
		return false
	}
	p.begin(id, c)
	if waits {
		p.keep(c)
		return true
	}
	n.begin(c, now)
	p.start(c)
	return true
}

// takeBack repeats a release on one node.
func (e *Engine) takeBack(n *node, client string, r engine.Release) {
	e.calls.owe(client, n, func(ctx context.Context, n *node) error { return n.Release(ctx, r) }, func(*node) {})
}

// take takes the first call from a node's outbox, if it may be made now. The mutex is held.
func (p *calls) take(n *node) *call {
	if len(n.outbox) == 0 {
		return nil
	}
	now := time.Now()
	c := n.outbox[0]
	c.over = c.pointless(now)
	switch {
	case c.over:
	case n.health(now) == away && !n.admit(now):
		p.arm(n)
		return nil
	default:
		n.begin(c, now)
	}
	n.outbox[0], n.outbox = nil, n.outbox[1:]
	if len(n.outbox) == 0 {
		n.outbox = nil // it was long, perhaps
	}
	return c
}

// pointless tells whether a call in an outbox is not to be made any more. The mutex is held.
func (c *call) pointless(now time.Time) bool {
	waited := now.Sub(c.posted)
	switch {
	case c.client.ctx.Err() != nil:
		return true
	case c.until.IsZero():
		return waited > patience || waited > suspicion && c.n.health(now) == away
	}
	return now.After(c.until)
}

// keep puts a call in the node's outbox: one that the node has not answered is the first
// one again. The mutex is held.
func (p *calls) keep(c *call) {
	at := len(c.n.outbox)
	if c.again {
		at = 0
	}
	c.again = false
	c.n.outbox = slices.Insert(c.n.outbox, at, c)
	p.arm(c.n)
}

// arm looks at the outbox again when a node that is away may be called. The mutex is held.
func (p *calls) arm(n *node) {
	if n.armed {
		return
	}
	n.armed = true
	pause := max(time.Until(n.tryAt), firstPause)
	time.AfterFunc(pause/2+rand.N(pause), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		n.armed = false
		p.resume(n)
	})
}

// resume makes the first call of an outbox, if it may be made. The mutex is held.
func (p *calls) resume(n *node) {
	if len(n.outbox) > 0 && n.health(time.Now()) == slow {
		p.arm(n) // a call is under way
		return
	}
	if c := p.take(n); c != nil {
		p.start(c)
	}
}
