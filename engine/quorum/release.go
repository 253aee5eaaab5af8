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
		return e.releaseUnknown(ctx, k, r)
	}
	a.mu.Lock()
	lease, tries := a.lease, append([]*round(nil), a.rounds...)
	waited := a.waits || r.Withdraw
	a.mu.Unlock()
	e.lines.leave(r.Resource, r.ID)
	a.leaveLines(ctx)
	switch {
	case lease != nil:
		err := e.give(ctx, lease, r)
		if err == nil {
			a.lose(lease)
		}
		e.settle(k, a, err)
		e.freed(r)
		return err
	case r.Token != 0:
		err := e.giveUnknown(ctx, r)
		e.settle(k, a, err)
		return err
	}
	r.Mark = 0 // it never held
	for _, t := range tries {
		var gone *engine.NotHeldError
		if err := e.give(ctx, t, r); err != nil && !errors.As(err, &gone) {
			a.recant() // the other tries
			e.settle(k, a, err)
			return err
		}
	}
	e.settle(k, a, nil)
	if !waited {
		return &engine.NotHeldError{Cause: engine.CauseDeleted}
	}
	return nil
}

// releaseUnknown is Release for a holder ID of which this process has nothing.
func (e *Engine) releaseUnknown(ctx context.Context, k key, r engine.Release) error {
	if r.Token == 0 && e.attempts.ending(k) == engine.CauseReleased {
		return nil
	}
	err := e.giveUnknown(ctx, r)
	e.freed(r)
	return err
}

// freed tells those who wait in this process of a mark. That there is room the nodes
// tell, to whom it is next.
func (e *Engine) freed(r engine.Release) {
	if r.Mark > 0 {
		e.lines.disband(r.Resource)
	}
}

// settle forgets an attempt that was given back, but for how it ended. Of one that was
// withdrawn no answer matters: each node is told until it has answered.
func (e *Engine) settle(k key, a *attempt, err error) {
	lease, over := a.standing()
	if lease == nil && (over != 0 || err == nil) {
		e.attempts.forget(k, a, over)
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
