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
	late := t.end(r, p.replies)
	p.pending = len(late)
	c := claim{nodes: len(e.nodes), need: t.need}
	to := e.pick(c.need - len(late))
	to = slices.DeleteFunc(to, func(n *node) bool { return slices.Contains(late, n) })
	for _, n := range e.nodes {
		if !slices.Contains(to, n) && !slices.Contains(late, n) {
			c.hear(n, t.leave(n))
		}
	}
	t.telling(to)
	p.ask(t.client(), to, func(ctx context.Context, n *node) (struct{}, error) {
		err := t.tell(ctx, n)
		t.told(n, err)
		return struct{}{}, err
	}, func(n *node) { t.told(n, errLeftOut) })
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

// telling notes that nodes are being told, so that their lists have nothing more for them.
func (t *round) telling(to []*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range to {
		t.shares[n.index].owed = true
	}
}

// told leaves a node to its list that has not answered.
func (t *round) told(n *node, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shares[n.index].owed = false
	if unavailable(err) && err != errGiven {
		t.owe(n)
	}
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
	return shortfall(ctx, len(e.nodes), "gave the lease back", c.yes, c.need, c.bad)
}
