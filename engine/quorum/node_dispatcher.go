package quorum

import (
	"context"
	"slices"
	"sync"
	"time"
)

// dispatcher makes the calls to the nodes in reusable worker goroutines: a call needs a deep
// stack, and to grow the stack of a new goroutine costs as much as the round trip.
type dispatcher struct {
	mu          sync.Mutex // guards the nodes, too
	nodes       []*node
	clients     map[string]*clientCalls // that have calls in flight or in an outbox
	work        chan *nodeCall          // for idle workers; nil ends one
	idleWorkers int
	sweeping    bool // a timer ends the idle workers
}

const (
	// workerSweepInterval is how often idle workers are ended. A timer for each worker would cost
	// more per call than it saves.
	workerSweepInterval = 50 * time.Millisecond
	// maxIdleWorkers is the maximum number of idle workers.
	maxIdleWorkers = 512
	// maxInFlight is the maximum number of calls in flight to a node that does not answer.
	maxInFlight = 256
	// inFlightMargin is how many calls more than the others a node may have in flight; see
	// inFlightLimit.
	inFlightMargin = 2
)

// clientCalls counts the calls for one client of the engine.
type clientCalls struct {
	id     string
	ctx    context.Context // ends when the client has left
	cancel context.CancelFunc
	byNode []int         // calls in flight and in the outbox, by node
	done   chan struct{} // closed when there is no call; made by startLeaving
}

// nodeCall is a call to one node.
type nodeCall struct {
	client *clientCalls
	n      *node
	ctx    context.Context                    // not used for a probe
	do     func(context.Context, *node) error // makes the call
	done   func(*node, error)                 // may be nil; receives each result, or errNotCalled if the call is not made

	created    time.Time
	retryUntil time.Time // end of the retries if the node does not answer; zero: no retry
	retry      bool      // the node has not answered
	expired    bool      // the call is not made

	sent  time.Time
	probe bool // the node was down
}

// send calls the selected ones of some nodes, of which need must answer. If a node is slow and has
// more calls in flight than the others, its call waits in the outbox until an earlier one has
// ended. So goroutines and connections do not accumulate for a node that hangs, and a slow node is
// still called.
func (d *dispatcher) send(id string, to []*node, need int, each nodeCall) {
	each.created = time.Now()
	calls := slices.Repeat([]nodeCall{each}, len(to))
	d.mu.Lock()
	use, leftOut := selectNodes(to, need, each.created)
	limit := d.inFlightLimit(need)
	for i, n := range use {
		c := &calls[i]
		c.n = n
		switch h := n.health(c.created); {
		case h == healthy, n.inFlight < limit, h == down && n.probes == 0:
			d.addCall(id, c)
			d.startCall(c, c.created)
		case h == slow && len(n.outbox) < maxOutboxRequests:
			d.addCall(id, c)
			d.enqueue(c)
		default:
			leftOut = append(leftOut, n)
		}
	}
	d.mu.Unlock()
	for _, n := range leftOut {
		each.done(n, errNotCalled)
	}
}

// inFlightLimit returns how many calls a node may have in flight if need nodes must answer: twice as
// many as the least busy majority has, or as the needed ones have, and a margin. The mutex is held.
func (d *dispatcher) inFlightLimit(need int) int {
	if need >= len(d.nodes) {
		return maxInFlight
	}
	var few [8]int
	inFlight := few[:0]
	for _, n := range d.nodes {
		inFlight = append(inFlight, n.inFlight)
	}
	slices.Sort(inFlight)
	return min(inFlightMargin+2*inFlight[max(need-1, len(inFlight)/2)], maxInFlight)
}

// addCall counts a call in the clientCalls of a client, which it creates if there are none. The
// mutex is held.
func (d *dispatcher) addCall(id string, c *nodeCall) {
	w := d.clients[id]
	if w == nil || w.ctx.Err() != nil && c.retryUntil.IsZero() {
		w = &clientCalls{id: id, byNode: make([]int, len(d.nodes))}
		w.ctx, w.cancel = context.WithCancel(context.Background())
		d.clients[id] = w
	}
	c.client = w
	w.byNode[c.n.index]++
}

// removeCall removes a call that has ended from the count. The mutex is held.
func (d *dispatcher) removeCall(c *nodeCall) {
	w := c.client
	w.byNode[c.n.index]--
	if slices.Max(w.byNode) > 0 {
		return
	}
	if w.done != nil {
		close(w.done)
	}
	if d.clients[w.id] == w {
		delete(d.clients, w.id)
	}
}

// startCall sends a call. The mutex is held.
func (d *dispatcher) startCall(c *nodeCall, now time.Time) {
	c.n.startCall(c, now)
	d.assign(c)
}

// assign passes a call to a worker. The mutex is held.
func (d *dispatcher) assign(c *nodeCall) {
	if d.idleWorkers == 0 {
		go d.worker(c)
		return
	}
	d.idleWorkers--
	d.work <- c
}

func (d *dispatcher) worker(c *nodeCall) {
	for c != nil {
		d.run(c)
		next, wait := d.nextCall(c)
		if wait {
			next = <-d.work
		}
		c = next
	}
}

// run makes a call, unless it has expired, and records how it ended before the result has any
// other effect.
func (d *dispatcher) run(c *nodeCall) {
	err := errNotCalled
	if !c.expired {
		ctx, cancel := c.ctx, context.CancelFunc(func() {})
		if c.probe {
			ctx, cancel = context.WithTimeout(c.client.ctx, nodeTimeout)
		}
		err = c.do(ctx, c.n)
		cancel()
		d.mu.Lock()
		c.n.endCall(c, err)
		d.mu.Unlock()
		c.retry = unavailable(err) && !c.retryUntil.IsZero()
	}
	if c.done != nil {
		c.done(c.n, err)
	}
}

// nextCall returns the next call for a worker, from the same node's outbox. If there is none, it
// reports whether the worker has to wait for one or ends.
func (d *dispatcher) nextCall(c *nodeCall) (next *nodeCall, wait bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.retry {
		d.enqueue(c)
	} else {
		d.removeCall(c)
	}
	if next = d.dequeue(c.n); next != nil {
		// After an outage, each answer of the node starts up to two calls.
		if !next.expired && c.n.inFlight < maxDrainCalls {
			if another := d.dequeue(c.n); another != nil {
				d.assign(another)
			}
		}
		return next, false
	}
	if c.client.id == "" || c.client.ctx.Err() != nil || d.idleWorkers == maxIdleWorkers {
		return nil, false // for the client "" Leave, which ends workers, is never called
	}
	d.idleWorkers++
	if !d.sweeping {
		d.sweeping = true
		time.AfterFunc(workerSweepInterval, d.sweepWorkers)
	}
	return nil, true
}

func (d *dispatcher) sweepWorkers() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweeping = false
	d.stopIdleWorkers()
}

// stopIdleWorkers ends the idle workers. The mutex is held.
func (d *dispatcher) stopIdleWorkers() {
	for ; d.idleWorkers > 0; d.idleWorkers-- {
		d.work <- nil
	}
}
