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
	use, _ := e.selectNodes(c.need)
	t.startResize(use)
	p := newFanOut[struct{}](ctx, e, len(use))
	p.send(t.clientID(), use, func(ctx context.Context, n *node) (struct{}, error) {
		err := t.resizeOn(ctx, n, weight)
		t.endResize(n, err)
		return struct{}{}, err
	}, func(n *node) { t.endResize(n, errNotCalled) })
	tooHeavy := 0
	for !c.final() && tooHeavy <= c.nodes-c.need {
		r, ok := p.next()
		if !ok {
			break
		}
		if errors.Is(r.err, engine.ErrTooHeavy) {
			tooHeavy++
		}
		if c.add(r.node, r.err); c.lost() {
			p.startGrace()
		}
	}
	switch {
	case c.confirmed():
		t.mu.Lock()
		t.request.Weight = weight
		t.scheduleSyncs() // of the nodes that were not called; endResize schedules those whose call fails
		t.mu.Unlock()
		e.localQueues.wakeFirst(res)
		return nil
	case c.lost():
		return c.cause()
	case tooHeavy > c.nodes-c.need:
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

// startResize records that nodes are called to resize the lease, so scheduleSync does not resize
// it as well. A release of the lease does not wait for these calls.
func (t *quorumLease) startResize(nodes []*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range nodes {
		t.onNode[n.index].resizing = true
	}
}

// endResize puts the call of a node that has not changed the weight into its outbox.
func (t *quorumLease) endResize(n *node, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onNode[n.index].resizing = false
	if unavailable(err) {
		t.scheduleSync(n)
	}
}
