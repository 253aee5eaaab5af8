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

// quit waits for a client's crew, ends it when it takes too long, and forgets it.
func (e *Engine) quit(client string) {
	start := time.Now()
	look := time.NewTicker(farewell)
	defer look.Stop()
	for {
		w, gone := e.crews.idle(client)
		if gone == nil {
			return
		}
		select {
		case <-gone:
		case now := <-look.C:
			if now.Sub(start) >= leavePatience || e.hopeless(w) {
				e.crews.forsake(client, w)
				for _, n := range e.nodes {
					n.wake() // what is owed for the client is no more
				}
				return
			}
		}
	}
}

// hopeless tells whether all that is under way is on nodes that do not answer.
func (e *Engine) hopeless(w *crew) bool {
	e.crews.mu.Lock()
	on := append([]int(nil), w.on...)
	e.crews.mu.Unlock()
	now := time.Now()
	for i, calls := range on {
		if calls > 0 && !e.nodes[i].hopeless(now) {
			return false
		}
	}
	return true
}

// idle forgets the crew of a client if nothing is under way; else it returns what is
// closed when that is so.
func (c *crews) idle(client string) (*crew, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.all[client]
	if w == nil {
		return nil, nil
	}
	if w.at == 0 {
		c.forget(client, w)
		return nil, nil
	}
	if w.gone == nil {
		w.gone = make(chan struct{})
	}
	return w, w.gone
}

// forsake ends what is under way, as far as it can be ended, and forgets the crew.
func (c *crews) forsake(client string, w *crew) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(client, w)
}

// forget ends a crew. The mutex is held.
func (c *crews) forget(client string, w *crew) {
	w.cancel()
	w.dismiss(len(w.idle))
	if c.all[client] == w {
		delete(c.all, client)
	}
}
