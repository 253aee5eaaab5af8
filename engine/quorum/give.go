package quorum

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// give takes a round out of the nodes. Those that have yet to answer the request count
// when they have, in case others do not answer now.
func (e *Engine) give(ctx context.Context, t *round, r engine.Release) error {
	p := open[struct{}](e, ctx, len(e.nodes))
	defer p.end()
	late := t.end(r, p.replies)
	p.pending = len(late)
	c := claim{nodes: len(e.nodes), need: t.need}
	to := slices.Clone(e.pick(c.need - len(late)))
	to = slices.DeleteFunc(to, func(n *node) bool { return slices.Contains(late, n) })
	for _, n := range e.nodes {
		if !slices.Contains(to, n) && !slices.Contains(late, n) {
			c.hear(n, t.leave(n))
		}
	}
	p.ask(t.client(), to, func(ctx context.Context, n *node) (struct{}, error) {
		err := t.tell(ctx, n)
		if unavailable(err) && err != errGiven {
			_ = t.leave(n)
		}
		return struct{}{}, err
	}, func(n *node) { _ = t.leave(n) })
	for told := len(to); !c.sure(); {
		if told == 0 && len(to) > 0 {
			p.hurry() // the others have not answered the request either
		}
		reply, ok := p.next()
		if !ok {
			break
		}
		if slices.Contains(to, reply.node) {
			told--
		}
		c.hear(reply.node, reply.err)
		if c.lost() || c.yes+len(c.gone) >= c.need {
			p.hurry() // the next holder can have it
		}
	}
	return e.given(ctx, c, r)
}

// leave leaves a node to its list, and returns what it counts for until then.
func (t *round) leave(n *node) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owe(n)
	switch t.shares[n.index].at {
	case absent:
		return &engine.NotHeldError{Cause: engine.CauseDeleted}
	case returned:
		return nil
	}
	return errLeftOut
}

// given says how a release went.
func (e *Engine) given(ctx context.Context, c claim, r engine.Release) error {
	free := c.yes + len(c.gone)
	switch {
	case c.held():
		return nil
	case c.lost():
		return c.why()
	case r.Mark == 0 && c.yes > 0 && free >= e.majority:
		return nil // it is out of the way, and may have been held until now
	}
	return shortfall(ctx, e, "gave the lease back", c.yes, c.need, c.bad)
}
