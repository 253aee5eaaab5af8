package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// Release implements engine.Engine. It returns when a majority has given the lease
// back; the others follow in the background. With a mark, a majority has to have
// marked the resource as well.
func (e *Engine) Release(ctx context.Context, r engine.Release) error {
	if err := e.usable(ctx); err != nil {
		return err
	}
	k := key{r.Resource, r.ID}
	a := e.attempts.find(k)
	if r.Withdraw {
		a = e.attempts.open(k) // the refusal has to be remembered
		a.end(engine.CauseReleased)
	}
	if a == nil {
		err := e.giveUnknown(ctx, r)
		e.freed(r)
		return err
	}
	a.mu.Lock()
	lease, tries := a.lease, append([]*round(nil), a.rounds...)
	waited := a.waits || r.Withdraw
	a.mu.Unlock()
	e.lines.leave(r.Resource, r.ID)
	switch {
	case lease != nil:
		err := e.give(ctx, lease, r)
		if err == nil {
			a.lose(lease)
			e.settle(k, a)
		}
		e.freed(r)
		return err
	case r.Token != 0:
		return e.giveUnknown(ctx, r)
	}
	r.Mark = 0 // it never held
	for _, t := range tries {
		var gone *engine.NotHeldError
		if err := e.give(ctx, t, r); err != nil && !errors.As(err, &gone) {
			return err
		}
	}
	e.settle(k, a)
	if !waited {
		return &engine.NotHeldError{Cause: engine.CauseDeleted}
	}
	return nil
}

// freed tells those who wait in this process that there may be room, or a mark.
func (e *Engine) freed(r engine.Release) {
	if r.Mark > 0 {
		e.lines.disband(r.Resource)
		return
	}
	e.lines.wake(r.Resource)
}

// settle forgets an attempt that was given back, unless it has to be refused.
func (e *Engine) settle(k key, a *attempt) {
	if _, over := a.standing(); over == 0 {
		e.attempts.forget(k, a)
	}
}

// giveUnknown gives back what this process has not taken, or has given back before.
func (e *Engine) giveUnknown(ctx context.Context, r engine.Release) error {
	err := e.give(ctx, e.guess(r.Resource, r.Held), r)
	var gone *engine.NotHeldError
	if !errors.As(err, &gone) {
		return err
	}
	t, lost := e.recall(ctx, r.Resource, r.Held)
	switch {
	case lost != nil:
		return lost
	case t == nil:
		return err
	}
	return e.give(ctx, t, r)
}

// give takes a round out of the nodes. Those that have yet to answer the request count
// when they have, in case others do not answer now.
func (e *Engine) give(ctx context.Context, t *round, r engine.Release) error {
	p := open[struct{}](e, ctx, len(e.nodes))
	defer p.end()
	tell := func(ctx context.Context, n *node, was standing) error {
		err := release(ctx, n, e.ending(t, n, was, r), was)
		switch {
		case err != nil:
			return err
		case r.Mark == 0 || was.marks():
			t.returned(n)
			return nil
		case was == absent:
			return &engine.NotHeldError{Cause: engine.CauseReleased}
		}
		return errGiven
	}
	at, late := t.finish(func(n *node, was standing) {
		if !was.some() {
			p.replies <- reply[struct{}]{node: n, err: &engine.NotHeldError{Cause: engine.CauseDeleted}}
			return
		}
		told := false
		e.insistOn(n, t.client(), func(ctx context.Context, n *node) error {
			err := tell(ctx, n, was)
			if !told {
				told = true
				p.replies <- reply[struct{}]{node: n, err: err}
			}
			if err == errGiven {
				return nil // it has confirmed, but not the mark
			}
			return err
		})
	})
	p.pending = len(late)
	c := claim{nodes: len(e.nodes), need: t.need}
	to := e.pick(c.need - len(late))
	to = slices.DeleteFunc(slices.Clone(to), func(n *node) bool { return slices.Contains(late, n) })
	p.ask(t.client(), to, func(ctx context.Context, n *node) (struct{}, error) {
		was := at[n.index]
		err := tell(ctx, n, was)
		if unavailable(err) && err != errGiven && was.some() {
			e.insist(n, t.client(), e.ending(t, n, was, r))
		}
		return struct{}{}, err
	}, func(n *node) {
		if was := at[n.index]; was.some() {
			e.insist(n, t.client(), e.ending(t, n, was, r))
		}
	})
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
			e.insist(n, t.client(), e.ending(t, n, at[i], r))
		}
	}
	for !c.sure() {
		reply, ok := p.next()
		if !ok {
			break
		}
		c.hear(reply.node, reply.err)
		if c.lost() || c.yes+len(c.gone) >= c.need {
			p.hurry() // the next holder can have it
		}
	}
	return e.given(ctx, c, r)
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

// ending is what is said to one node.
func (e *Engine) ending(t *round, n *node, was standing, r engine.Release) engine.Release {
	r.Held = t.on(n)
	if was == asked || was == unsure {
		r.Withdraw = true // the request may still be under way
	}
	return r
}

// Resize implements engine.Engine. A node that does not answer goes on counting the
// weight before, until the lease ends there.
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
		return struct{}{}, n.Resize(ctx, res, t.on(n), weight)
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
		e.lines.wake(res)
		return nil
	case c.lost():
		return c.why()
	case heavy > c.nodes-c.need:
		return engine.ErrTooHeavy
	}
	return shortfall(ctx, e, "changed the weight", c.yes, c.need, c.bad)
}
