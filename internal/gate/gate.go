// Package gate counts what runs inside a client, so that Close can wait for it.
package gate

import (
	"context"
	"sync"
	"sync/atomic"
)

// Gate is open, then closed to calls, then drained: closed to all work. Every call enters
// and leaves it, so it is one atomic number while it is open. The zero Gate is open.
type Gate struct {
	inside atomic.Int64 // the count, plus the bits closed and drained

	mu    sync.Mutex
	empty chan struct{} // made by Wait, closed when the count is zero
}

const (
	closed  = 1 << 61 // no new calls
	drained = 1 << 62 // no new work of any kind
	count   = closed - 1
)

// Enter admits a public call, unless the gate is closed. If it returns true, the caller
// must call Leave.
func (g *Gate) Enter() bool { return g.admit(closed | drained) }

// JoinCleanup admits work that clears up after calls, unless the gate is drained: also
// while the client closes, until the count has been zero. If it returns true, the caller
// must call Leave.
func (g *Gate) JoinCleanup() bool { return g.admit(drained) }

// admit counts a caller in unless the gate has one of the barred bits.
func (g *Gate) admit(barred int64) bool {
	if g.inside.Add(1)&barred == 0 {
		return true
	}
	g.Leave() // only Wait may have seen this count
	return false
}

// Leave counts a caller out.
func (g *Gate) Leave() {
	if left := g.inside.Add(-1); left&count != 0 || left == 0 {
		return // others are counted, or the gate is open
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// Close refuses new calls and reports whether the gate was open.
func (g *Gate) Close() bool { return g.inside.Or(closed)&closed == 0 }

// Wait returns true once the count is zero, and then the gate is drained, or false if ctx
// ended first. The gate must be closed.
func (g *Gate) Wait(ctx context.Context) bool {
	for {
		g.mu.Lock()
		if g.inside.CompareAndSwap(closed, closed|drained) || g.inside.Load()&drained != 0 {
			g.mu.Unlock()
			return true
		}
		if g.empty == nil {
			g.empty = make(chan struct{})
		}
		empty := g.empty
		g.mu.Unlock()
		if g.inside.Load()&count == 0 {
			continue // the last one left before it could see empty
		}
		select {
		case <-empty:
		case <-ctx.Done():
			return false
		}
	}
}
