package quorum

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// Resize implements engine.Engine. A node that does not confirm the new weight is told in
// the background, and again whenever it confirms a renewal.
func (e *Engine) Resize(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
	if err := e.usable(ctx); err != nil {
		return err
	}
	_, t, err := e.lease(ctx, res, h)
	if err != nil {
		return err
	}
	c := claim{nodes: len(e.nodes), need: t.need}
	p := begin(e, ctx, t.client(), e.pick(c.need), func(ctx context.Context, n *node) (struct{}, error) {
		h := t.on(n)
		err := n.Resize(ctx, res, h, weight)
		t.weighs(n, h, weight, err)
		if unavailable(err) {
			t.mu.Lock()
			t.lighten(n) // if a majority has confirmed it by now
			t.mu.Unlock()
		}
		return struct{}{}, err
	})
	defer p.end()
	heavy := 0
	for !c.sure() && heavy <= c.nodes-c.need {
		r, ok := p.next()
		if !ok {
			break
		}
		if errors.Is(r.err, engine.ErrTooHeavy) {
			heavy++
		}
		c.hear(r.node, r.err)
		if c.lost() {
			p.hurry()
		}
	}
	switch {
	case c.held():
		t.reweigh(weight, p.asked)
		e.lines.wake(res)
		return nil
	case c.lost():
		return c.why()
	case heavy > c.nodes-c.need:
		return engine.ErrTooHeavy
	}
	return shortfall(ctx, e, "changed the weight", c.yes, c.need, c.bad)
}

// reweigh notes the weight that a majority counts, and tells the nodes that did not confirm
// it. Those that have not answered yet are told when they fail.
func (t *round) reweigh(weight int, silent []*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.req.Weight = weight
	for _, n := range t.e.nodes {
		if !slices.Contains(silent, n) {
			t.lighten(n)
		}
	}
}

// lighten lowers the weight on a node that has the lease with another one. The mutex is
// held.
func (t *round) lighten(n *node) {
	h, weight := t.there[n.index], t.req.Weight
	if t.over || t.at[n.index] != held || weight == 0 || t.weights[n.index] == weight {
		return
	}
	t.e.insistOn(n, t.client(), func(ctx context.Context, n *node) error {
		err := n.Resize(ctx, t.res, h, weight)
		t.weighs(n, h, weight, err)
		return err
	})
}

// weighs takes in what a node said about a new weight of what the lease is called there.
func (t *round) weighs(n *node, h engine.Held, weight int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && t.there[n.index] == h {
		t.weights[n.index] = weight
	}
}
