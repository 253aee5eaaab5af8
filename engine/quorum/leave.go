package quorum

import (
	"sync"
	"time"
)

const (
	// leavePatience is how long Leave waits for what is under way before it ends it.
	leavePatience = time.Second
	// farewell is how long it waits for a node that does not answer, or fails.
	farewell = 100 * time.Millisecond
)

// Leave implements engine.Engine. It waits for what is under way for the client, for
// a second at most; where only nodes are missing that do not answer, for a tenth of
// one. Then what is still to be given back is left to its TTL. A call that such a node
// has not answered ends by the timeouts of the node's own engine, also after Leave.
func (e *Engine) Leave(client string) {
	if e.broken != nil {
		return
	}
	e.quit(client)
	end := time.NewTimer(farewell)
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

// quit waits for what is under way for a client, and ends it when it takes too long.
func (e *Engine) quit(id string) {
	start := time.Now()
	w, gone := e.calls.leaving(id)
	e.calls.retry(w)
	look := time.NewTicker(farewell)
	defer look.Stop()
	for waits := w != nil; waits; {
		select {
		case <-gone:
			waits = false
		case now := <-look.C:
			waits = now.Sub(start) < leavePatience && !e.calls.hopeless(w, now)
		}
	}
	e.calls.forsake(w)
}

// leaving returns a client of which something is under way, and what is closed when
// nothing is any more.
func (p *calls) leaving(id string) (*client, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.clients[id]
	if w == nil || w.ctx.Err() != nil {
		return nil, nil
	}
	if w.gone == nil {
		w.gone = make(chan struct{})
	}
	return w, w.gone
}

// retry calls the nodes that are away and have something of a client in their outboxes
// now, since there may be no later try.
func (p *calls) retry(w *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w == nil {
		return
	}
	for i, calls := range w.on {
		if n := p.nodes[i]; calls > 0 {
			n.tryAt = time.Time{}
			p.resume(n)
		}
	}
}

// hopeless tells whether all that is under way is on nodes that are away.
func (p *calls) hopeless(w *client, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, calls := range w.on {
		if calls > 0 && p.nodes[i].health(now) < away {
			return false
		}
	}
	return true
}

// forsake ends what is under way for a client, as far as it can be ended, and idle
// goroutines, since some are there because of it.
func (p *calls) forsake(w *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dismiss(p.idle)
	if w == nil {
		return
	}
	w.cancel()
	for _, n := range p.nodes {
		p.resume(n)
	}
}
