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
	to := e.pick(c.need)
	t.unasked(to)
	p := open[struct{}](e, ctx, len(to))
	p.ask(t.client(), to, func(ctx context.Context, n *node) (struct{}, error) {
		h := t.on(n)
		err := n.Resize(ctx, res, h, weight)
		t.weighs(n, h, weight, err)
		return struct{}{}, err
	}, func(n *node) { t.weighs(n, t.on(n), weight, errLeftOut) })
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
		t.reweigh(weight)
		e.lines.wake(res)
		return nil
	case c.lost():
		return c.why()
	case heavy > c.nodes-c.need:
		return engine.ErrTooHeavy
	}
	return shortfall(ctx, len(e.nodes), "changed the weight", c.yes, c.need, c.bad)
}

// unasked notes which nodes a Resize does not ask.
func (t *round) unasked(to []*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, n := range t.e.nodes {
		t.shares[i].missed = !slices.Contains(to, n)
	}
}

// reweigh notes the weight that a majority counts, and puts it on the list of nodes that
// missed it. Those that have not answered yet are told when they fail.
func (t *round) reweigh(weight int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.req.Weight = weight
	for i, n := range t.e.nodes {
		if t.shares[i].missed {
			t.owe(n)
		}
	}
}

// weighs takes in what a node said about a new weight of what the lease is called there.
func (t *round) weighs(n *node, h engine.Held, weight int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.shares[n.index]
	switch {
	case err == nil && s.name == h:
		s.weight = weight
	case err != nil:
		s.missed = true
		if unavailable(err) && t.req.Weight == weight {
			t.owe(n)
		}
	}
}
