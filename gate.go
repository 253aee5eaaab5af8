package holdfast

import (
	"context"
	"sync"
	"sync/atomic"
)

// gate counts what runs inside a client, so that Close can wait for it. Every call enters
// and leaves it, so it is one atomic number while the client is open.
type gate struct {
	inside atomic.Int64 // the count, plus gateClosed and gateDrained

	mu    sync.Mutex
	empty chan struct{} // made by wait, closed when the count is zero
}

const (
	gateClosed  = 1 << 61 // no new calls
	gateDrained = 1 << 62 // no new work of any kind
	gateCount   = gateClosed - 1
)

// enter admits a public call, until the gate is closed.
func (g *gate) enter() bool { return g.admit(gateClosed | gateDrained) }

// joinCleanup admits work that clears up after calls. It succeeds while the client closes,
// until the count has been zero.
func (g *gate) joinCleanup() bool { return g.admit(gateDrained) }

// admit counts a caller in unless the gate is in one of the barred states.
func (g *gate) admit(barred int64) bool {
	if g.inside.Add(1)&barred == 0 {
		return true
	}
	g.leave() // only wait may have seen this count
	return false
}

func (g *gate) leave() {
	if left := g.inside.Add(-1); left&gateCount != 0 || left == 0 {
		return // others are counted, or wait has not been called
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// close refuses new calls and reports whether the gate was open.
func (g *gate) close() bool { return g.inside.Or(gateClosed)&gateClosed == 0 }

// wait returns true once the count is zero and the gate refuses everything, or false if
// ctx ended first. The gate must be closed.
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
			continue // the last one left before it could see empty
		}
		select {
		case <-empty:
		case <-ctx.Done():
			return false
		}
	}
}
