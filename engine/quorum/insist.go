package quorum

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// insistence bounds how long a node is asked to take something back. A lease ends
	// by its TTL anyway; what matters is that it does not come up later.
	insistence = 30 * time.Second
	// insistent is how many such calls a node may have open; those above are left to
	// the TTL.
	insistent = 1024
)

// insist repeats a release on one node.
func (e *Engine) insist(n *node, client string, r engine.Release) {
	e.insistOn(n, client, func(ctx context.Context, n *node) error { return n.Release(ctx, r) })
}

// insistOn repeats a call of one node, in the background, until the node has
// answered, the time for it is over, or the client has left.
func (e *Engine) insistOn(n *node, client string, do func(context.Context, *node) error) {
	if !n.take() {
		return
	}
	w := e.crews.join(client, 1)
	go func() {
		defer w.done()
		defer n.drop()
		ctx, cancel := context.WithTimeout(w.ctx, insistence)
		defer cancel()
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			call, done := context.WithTimeout(ctx, patience)
			n.begin()
			err := do(call, n)
			n.end(err)
			done()
			if !unavailable(err) || !rest(ctx, pause/2+rand.N(pause)) {
				return
			}
		}
	}()
}

// rest waits; it returns false when ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// take reserves a place for a release that is insisted on.
func (n *node) take() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.insisting >= insistent {
		return false
	}
	n.insisting++
	return true
}

func (n *node) drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.insisting--
}
