package quorum

import (
	"context"

	"github.com/holdfast-go/holdfast/engine"
)

// Resize implements engine.Engine. A node that does not confirm the new weight is called again
// in the background, and whenever it confirms a renewal.
func (e *Engine) Resize(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	_, t, err := e.findLease(ctx, res, h)
	if err != nil {
		return err
	}
	c := tally{nodes: len(e.nodes), need: t.need}
	use, _ := e.selectNodes(c.need)
	p := newFanOut[struct{}](ctx, e, len(use))
	t.syncNow(p, use, func(ctx context.Context, n *node) error { return t.resizeOn(ctx, n, weight) },
		func(n *node, _ error) { t.endResize(n) })
	c.await(p)
	switch {
	case c.confirmed():
		t.mu.Lock()
		t.request.Weight = weight
		t.scheduleSyncs() // of the nodes that missed it; the others are scheduled if their call fails
		t.mu.Unlock()
		e.localQueues.wakeFirst(res)
		return nil
	case c.lost():
		return c.cause()
	case c.refusedBy(engine.ErrTooHeavy) > c.nodes-c.need:
		return engine.ErrTooHeavy
	}
	return c.shortfall(ctx, "changed the weight")
}

// resizeOn changes the weight on one node.
func (t *quorumLease) resizeOn(ctx context.Context, n *node, weight int) error {
	name := t.heldOn(n)
	err := n.Resize(ctx, t.res, name, weight)
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := &t.onNode[n.index]; err == nil && s.name == name {
		s.weight = weight
	}
	return err
}
