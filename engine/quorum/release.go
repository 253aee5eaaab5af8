package quorum

import (
	"context"
	"errors"

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
		t.mu.Lock()
		t.req.Weight, t.resized = weight, true // for where it comes late, or is made anew
		t.mu.Unlock()
		e.lines.wake(res)
		return nil
	case c.lost():
		return c.why()
	case heavy > c.nodes-c.need:
		return engine.ErrTooHeavy
	}
	return shortfall(ctx, e, "changed the weight", c.yes, c.need, c.bad)
}
