package quorum

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// Break implements engine.Engine. It returns when a majority of the nodes has broken the
// lease. Unless by force, each of them keeps it until its holder releases it or its
// deadline comes, so no other has a majority before that. A node that missed the break is
// told again in the background.
func (e *Engine) Break(ctx context.Context, res engine.Resource, b engine.Break) error {
	if err := e.usable(ctx); err != nil {
		return err
	}
	defer e.lines.wake(res)
	if b.ID == engine.MarkID {
		return e.breakMark(ctx, res)
	}
	var known *round
	if a := e.attempts.find(key{res, b.ID}); a != nil {
		known, _ = a.standing()
	}
	client := engine.ClientOf(b.ID)
	again := func(n *node) { e.breakAgain(n, res, b, known) }
	p := open[struct{}](e, ctx, len(e.nodes))
	to := e.pick(e.majority)
	p.ask(client, to, func(ctx context.Context, n *node) (struct{}, error) {
		err := e.breakOn(ctx, n, res, b, known)
		if unavailable(err) {
			again(n)
		}
		return struct{}{}, err
	}, again)
	for _, n := range e.nodes {
		if !slices.Contains(to, n) {
			again(n)
		}
	}
	return e.broke(p)
}

// broke returns when it is clear what a break has ended.
func (e *Engine) broke(p *poll[struct{}]) error {
	c := claim{nodes: len(e.nodes), need: e.majority}
	for !c.sure() {
		r, ok := p.next()
		if !ok {
			break
		}
		c.hear(r.node, r.err)
		if c.lost() || c.yes+len(c.gone) >= e.majority {
			p.hurry()
		}
	}
	switch {
	case c.held(), c.yes > 0 && c.yes+len(c.gone) >= e.majority:
		return nil // no majority has it any more, maybe since its holder was told by one node
	case c.lost():
		return c.why()
	}
	return shortfall(p.ctx, len(e.nodes), "ended it", c.yes, c.need, c.bad)
}

// breakAgain repeats a break on a node that has missed it. What comes later than the
// lease does nothing.
func (e *Engine) breakAgain(n *node, res engine.Resource, b engine.Break, known *round) {
	e.calls.owe(engine.ClientOf(b.ID), n, func(ctx context.Context, n *node) error {
		return e.breakOn(ctx, n, res, b, known)
	}, func(*node) {})
}

// breakOn ends what one node has of a holder ID.
func (e *Engine) breakOn(ctx context.Context, n *node, res engine.Resource, b engine.Break, known *round) error {
	var gone *engine.NotHeldError
	id := b.ID
	if b.Token != 0 { // then its name is known, unless it was made anew
		b.ID = tryID(id, b.Token)
		if err := n.Break(ctx, res, b); !errors.As(err, &gone) || gone.Cause == engine.CauseBroken {
			return err
		}
		b.ID = id
	}
	all, err := holdersOn(ctx, n, res, b)
	if err != nil {
		return err
	}
	broke := false
	for _, h := range all {
		if holder, _ := parseTry(h.ID); holder == id || h.ID == id {
			b.ID = h.ID
			err := n.Break(ctx, res, b)
			if err != nil && !errors.As(err, &gone) {
				return err
			}
			broke = broke || err == nil
		}
	}
	switch {
	case broke:
		return nil
	case known != nil:
		b.ID = known.on(n).ID
	}
	return n.Break(ctx, res, b)
}

// holdersOn returns what a node shows as holders: all that one who is to be broken can be
// among. If the token is known, its caller has it from a peek.
func holdersOn(ctx context.Context, n *node, res engine.Resource, b engine.Break) ([]engine.Holder, error) {
	brief, err := n.Peek(ctx, res)
	// A peek at a condition would leave out who is breaking.
	if err != nil || b.Token != 0 || !brief.More && brief.Kind != engine.KindCond {
		return brief.Holders, err
	}
	s, err := n.Snapshot(ctx, res)
	return s.Holders, err
}
