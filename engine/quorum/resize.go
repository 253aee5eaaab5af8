package quorum

import (
	"context"
	"errors"

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
	p := callNodes(ctx, e, t.clientID(), e.nodes, c.need, withoutValue(func(ctx context.Context, n *node) error {
		return t.resizeOn(ctx, n, weight)
	}), nil)
	tooHeavy := 0
	for r := range p.answers() {
		if errors.Is(r.err, engine.ErrTooHeavy) {
			tooHeavy++
		}
		if c.add(r.node, r.err); c.final() || tooHeavy > c.nodes-c.need {
			break
		}
		if c.lost() {
			p.startGrace()
		}
	}
	switch {
	case c.confirmed():
		t.mu.Lock()
		t.request.Weight = weight
		t.scheduleSyncs() // of the nodes that have not confirmed it: a second Resize does no harm
		t.mu.Unlock()
		e.localQueues.wakeFirst(res)
	case tooHeavy > c.nodes-c.need && !c.lost():
		return engine.ErrTooHeavy
	}
	return c.outcome(ctx, "changed the weight")
}

// resizeOn changes the weight on one node.
func (t *quorumLease) resizeOn(ctx context.Context, n *node, weight int) error {
	name := t.on(n).name
	err := n.Resize(ctx, t.res, name, weight)
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := &t.onNode[n.index]; err == nil && s.name == name {
		s.weight = weight
	}
	return err
}
