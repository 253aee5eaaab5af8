package holdfast

import (
	"context"
	"sync"
	"sync/atomic"
)

// gate counts what runs inside a client, so that Close can wait for it. Every
// call passes it twice, so it is one atomic number while the client is open.
type gate struct {
	inside atomic.Int64 // those inside, plus gateClosed and gateDrained

	mu    sync.Mutex
	empty chan struct{} // made by wait, closed when nobody is inside
}

const (
	gateClosed  = 1 << 61 // no new calls
	gateDrained = 1 << 62 // no new work of any kind
	gateCount   = gateClosed - 1
)

// enter admits a public call, until the gate is closed.
func (g *gate) enter() bool { return g.admit(gateClosed | gateDrained) }

// join admits work that clears up after calls; it is possible while the client
// closes, until the last one has left.
func (g *gate) join() bool { return g.admit(gateDrained) }

// admit lets somebody in unless the gate is in one of some states.
func (g *gate) admit(barred int64) bool {
	if g.inside.Add(1)&barred == 0 {
		return true
	}
	g.leave() // nobody was let in; only who waits for the end may have seen it
	return false
}

func (g *gate) leave() {
	if left := g.inside.Add(-1); left&gateCount != 0 || left == 0 {
		return // others are inside, or nobody can be waiting
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// close keeps new calls out and tells whether it was open.
func (g *gate) close() bool { return g.inside.Or(gateClosed)&gateClosed == 0 }

// wait returns true when nobody is inside, and nobody can come in any more; or
// false when ctx ended first. The gate is closed.
func (g *gate) wait(ctx context.Context) bool {
	for {
		g.mu.Lock()
		if g.inside.CompareAndSwap(gateClosed, gateClosed|gateDrained) || g.inside.Load()&gateDrained != 0 {
			g.mu.Unlock()
			return true
		}
		if g.empty == nil {
			g.empty = make(chan struct{})
		}
		empty := g.empty
		g.mu.Unlock()
		if g.inside.Load()&gateCount == 0 {
			continue // the last one left before it could see that somebody waits
		}
		select {
		case <-empty:
		case <-ctx.Done():
			return false
		}
	}
}
