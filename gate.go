package holdfast

import (
	"context"
	"sync"
)

// gate counts what runs inside a client, so that Close can wait for it.
type gate struct {
	mu      sync.Mutex
	closed  bool // no new calls
	drained bool // no new work of any kind
	inside  int
	empty   chan struct{} // made by wait, closed when nobody is inside
}

// enter admits a public call, until the gate is closed.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

// join admits work that clears up after calls; it is possible while the client
// closes, until the last one has left.
func (g *gate) join() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.drained {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// close keeps new calls out and tells whether it was open.
func (g *gate) close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := !g.closed
	g.closed = true
	return was
}

// wait returns true when nobody is inside, and nobody can come in any more; or
// false when ctx ended first.
func (g *gate) wait(ctx context.Context) bool {
	for {
		g.mu.Lock()
		if g.inside == 0 {
			g.drained = true
			g.mu.Unlock()
			return true
		}
		if g.empty == nil {
			g.empty = make(chan struct{})
		}
		empty := g.empty
		g.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
			return false
		}
	}
}
