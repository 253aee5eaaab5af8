package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// giving is a release on its way to the nodes of a round.
type giving struct {
	e *Engine
	t *round
	r engine.Release
}

// give takes a round out of the nodes. Those that have yet to answer the request count
// when they have, in case others do not answer now.
func (e *Engine) give(ctx context.Context, t *round, r engine.Release) error {
	g := giving{e, t, r}
	p := open[struct{}](e, ctx, len(e.nodes))
	defer p.end()
	at, late := t.finish(g.whenLate(p.replies))
	p.pending = len(late)
	c := claim{nodes: len(e.nodes), need: t.need}
	to := e.pick(c.need - len(late))
	to = slices.DeleteFunc(slices.Clone(to), func(n *node) bool { return slices.Contains(late, n) })
	p.ask(t.client(), to, func(ctx context.Context, n *node) (struct{}, error) {
		err := g.tell(ctx, n, at[n.index])
		if unavailable(err) && err != errGiven {
			g.insist(n, at[n.index])
		}
		return struct{}{}, err
	}, func(n *node) { g.insist(n, at[n.index]) })
	for i, n := range e.nodes {
		switch {
		case slices.Contains(to, n), slices.Contains(late, n):
		case at[i] == absent:
			c.hear(n, &engine.NotHeldError{Cause: engine.CauseDeleted})
		case at[i] == returned:
			c.hear(n, nil)
		case at[i] == given, at[i] == withdrawn:
			c.hear(n, errGiven)
		default:
			c.hear(n, errLeftOut)
			g.insist(n, at[i])
		}
	}
	told := len(to)
	for !c.sure() {
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

// tell makes the release on one node, and returns what that counts for.
func (g giving) tell(ctx context.Context, n *node, was standing) error {
	err := release(ctx, n, g.ending(n, was), was)
	switch {
	case err != nil:
		return err
	case g.r.Mark == 0 || was.marks():
		g.t.returned(n)
		return nil
	case was == absent:
		return &engine.NotHeldError{Cause: engine.CauseReleased}
	}
	return errGiven
}

// insist makes the release on one node in the background, if something is there.
func (g giving) insist(n *node, was standing) {
	if was.some() {
		g.e.insist(n, g.t.client(), g.ending(n, was))
	}
}

// whenLate returns what to do about a node that answers the request now. It says only
// once how that went, and keeps nothing of the caller's, since it may last.
func (g giving) whenLate(replies chan<- reply[struct{}]) func(*node, standing) {
	return func(n *node, was standing) {
		if !was.some() {
			replies <- reply[struct{}]{node: n, err: &engine.NotHeldError{Cause: engine.CauseDeleted}}
			return
		}
		said := false
		g.e.insistOn(n, g.t.client(), func(ctx context.Context, n *node) error {
			err := g.tell(ctx, n, was)
			if !said {
				said = true
				replies <- reply[struct{}]{node: n, err: err}
			}
			if err == errGiven {
				return nil // it has confirmed, but not the mark
			}
			return err
		})
	}
}

// ending is what is said to one node.
func (g giving) ending(n *node, was standing) engine.Release {
	r := g.r
	r.Held = g.t.on(n)
	if was == asked || was == unsure {
		r.Withdraw = true // the request may still be under way
	}
	return r
}

// marks tells whether a node that says yes to a release with a mark has made it. One
// that is not known to have had the lease may take it for given back before, and
// marks nothing.
func (s standing) marks() bool { return s == held || s == given || s == returned }

// errGiven stands for the answer of a node that was told before, and left out now.
var errGiven = fmt.Errorf("%w: it has not confirmed", engine.ErrUnavailable)

// returned notes that a node has confirmed that nothing is there any more.
func (t *round) returned(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.at[n.index]; s == given || s == withdrawn {
		t.at[n.index] = returned
	}
}

// finish makes sure that nothing will be left of a round, and returns what is on the
// nodes now. Those that have yet to answer the request of a lease are left to their
// answer, and then to late: a withdrawal would have to be remembered by the node for long, and for each
// lease that is given back so quickly.
func (t *round) finish(late func(*node, standing)) (at []standing, behind []*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over, t.late = true, late
	at = slices.Clone(t.at)
	for i, was := range at {
		if was == asked && t.state == granted {
			behind = append(behind, t.e.nodes[i])
			continue
		}
		t.at[i] = was.ended() // what answers late to the request finds it withdrawn
	}
	return at, behind
}

// release gives back what is on one node. A withdrawal is always answered yes, so it
// does not tell whether it has marked: where that matters, and the request may be
// still under way, it comes second.
func release(ctx context.Context, n *node, r engine.Release, was standing) error {
	if r.Mark == 0 || was != asked && was != unsure {
		return n.Release(ctx, r)
	}
	plain := r
	plain.Withdraw = false
	marked := n.Release(ctx, plain)
	r.Mark = 0
	return errors.Join(marked, n.Release(ctx, r))
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
