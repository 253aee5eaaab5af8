package quorum

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// retryTimeout bounds how long a call is repeated until the node answers. It exceeds the
	// time for which a late request may be in flight; a lease that remains ends by its TTL.
	retryTimeout = 30 * time.Second
	// maxOutbox is the maximum number of calls in an outbox. A lease whose release does not fit
	// expires by its TTL.
	maxOutbox = 1024
	// maxOutboxRequests is the length of an outbox at which send adds no call to it.
	maxOutboxRequests = 128
	// maxDrainCalls is the maximum number of calls from the outbox that are in flight.
	maxDrainCalls = 16
)

// callInBackground repeats a call to a node until the node has answered, retryTimeout is over, or
// the client has left. If the client has left before, the node is called once, and only if it
// is healthy. callInBackground returns false if the call is not made.
func (d *dispatcher) callInBackground(id string, n *node, do func(context.Context, *node) error, done func(*node, error)) bool {
	now := time.Now()
	c := &nodeCall{n: n, ctx: context.Background(), do: do, done: done, created: now, retryUntil: now.Add(retryTimeout)}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := n.health(now)
	w := d.clients[id]
	waits := h == slow && n.inFlight >= maxDrainCalls || h == down && n.probes+len(n.outbox) > 0
	if waits && len(n.outbox) >= maxOutbox || h != healthy && w != nil && w.ctx.Err() != nil {
		return false
	}
	d.addCall(id, c)
	if waits {
		d.enqueue(c)
	} else {
		d.startCall(c, now)
	}
	return true
}

// releaseInBackground repeats a release on one node.
func (e *Engine) releaseInBackground(n *node, client string, r engine.Release) {
	e.dispatcher.callInBackground(client, n, func(ctx context.Context, n *node) error { return n.Release(ctx, r) }, nil)
}

// enqueue puts a call at the end of the node's outbox, or at its front if the call is a retry. The
// mutex is held.
func (d *dispatcher) enqueue(c *nodeCall) {
	at := len(c.n.outbox)
	if c.retry {
		at = 0
	}
	c.retry = false
	c.n.outbox = slices.Insert(c.n.outbox, at, c)
	d.armTimer(c.n)
}

// dequeue removes the first call from a node's outbox, if it may be made now or has expired, and
// records that it is sent. The mutex is held.
func (d *dispatcher) dequeue(n *node) *nodeCall {
	if len(n.outbox) == 0 {
		return nil
	}
	now := time.Now()
	c := n.outbox[0]
	c.expired = c.stale(now)
	switch {
	case c.expired:
	case n.health(now) == down && !n.admitProbe(now):
		d.armTimer(n)
		return nil
	default:
		n.startCall(c, now)
	}
	n.outbox[0], n.outbox = nil, n.outbox[1:]
	if len(n.outbox) == 0 {
		n.outbox = nil // frees the array
	}
	return c
}

// stale reports whether a call in an outbox is no longer needed. The mutex is held.
func (c *nodeCall) stale(now time.Time) bool {
	waited := now.Sub(c.created)
	switch {
	case c.client.ctx.Err() != nil:
		return true
	case c.retryUntil.IsZero():
		return waited > nodeTimeout || waited > downAfter && c.n.health(now) == down
	}
	return now.After(c.retryUntil)
}

// armTimer drains the outbox when a node that is down may be called again. The mutex is held.
func (d *dispatcher) armTimer(n *node) {
	if n.timerSet {
		return
	}
	n.timerSet = true
	pause := max(time.Until(n.retryAt), minBackoff)
	time.AfterFunc(pause/2+rand.N(pause), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		n.timerSet = false
		d.drainOutbox(n)
	})
}

// drainOutbox makes the first call of an outbox, if it may be made; the worker then continues
// with the next. The mutex is held.
func (d *dispatcher) drainOutbox(n *node) {
	if len(n.outbox) > 0 && n.health(time.Now()) == slow {
		d.armTimer(n) // a call is in flight
		return
	}
	if c := d.dequeue(n); c != nil {
		d.assign(c)
	}
}
