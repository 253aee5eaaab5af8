package quorum

import (
	"sync"
	"time"
)

const (
	// leaveTimeout is how long Leave waits for calls in flight before it ends them.
	leaveTimeout = time.Second
	// downLeaveTimeout is how long Leave waits for nodes that are down.
	downLeaveTimeout = 100 * time.Millisecond
)

// Leave implements engine.Engine. It waits for the client's calls for at most leaveTimeout, or
// downLeaveTimeout if all remaining calls are on nodes that are down. Leases that are not
// released by then expire. A call in flight on such a node ends by the timeouts of the node's
// own engine, possibly after Leave.
func (e *Engine) Leave(client string) {
	if e.broken != nil {
		return
	}
	e.spreader.leave(client)
	e.dispatcher.leave(client)
	end := time.NewTimer(downLeaveTimeout)
	defer end.Stop()
	var all sync.WaitGroup
	for _, n := range e.nodes {
		all.Go(func() { n.Leave(client) })
	}
	left := make(chan struct{})
	go func() {
		all.Wait()
		close(left)
	}()
	select {
	case <-left:
	case <-end.C:
	}
}

// leave waits for the calls of a client, and ends them after the timeout. It also ends the idle
// workers, since some were started for the client.
func (d *dispatcher) leave(id string) {
	start := time.Now()
	w := d.startLeaving(id)
	if w != nil {
		check := time.NewTicker(downLeaveTimeout)
		defer check.Stop()
		for waits := true; waits; {
			select {
			case <-w.done:
				waits = false
			case now := <-check.C:
				waits = now.Sub(start) < leaveTimeout && !d.allDown(func(n *node) bool { return w.byNode[n.index] > 0 })
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopIdleWorkers()
	if w != nil {
		w.cancel()
		for _, n := range d.nodes {
			d.drainOutbox(n)
		}
	}
}

// startLeaving returns the calls of a client; nil if there are none. It sends the calls in the
// outboxes of nodes that are down, without waiting for the backoff: this may be the last try.
func (d *dispatcher) startLeaving(id string) *clientCalls {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.clients[id]
	if w == nil || w.ctx.Err() != nil {
		return nil
	}
	if w.done == nil {
		w.done = make(chan struct{})
	}
	for i, calls := range w.byNode {
		if calls > 0 {
			d.nodes[i].retryAt = time.Time{}
			d.drainOutbox(d.nodes[i])
		}
	}
	return w
}
