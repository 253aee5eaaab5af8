package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/eitherctx"
)

// leaseContext is the context of a lease. Its methods check the clock, so that
// a process that was paused gets the error before its next step, not when the
// timer runs.
type leaseContext struct {
	context.Context
	lease  *Lease
	cancel context.CancelCauseFunc
}

// leaseKey is the key under which a context carries its lease.
type leaseKey struct{}

// Done implements context.Context.
func (c *leaseContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

// Err implements context.Context.
func (c *leaseContext) Err() error {
	c.look()
	return c.Context.Err()
}

// look cancels the context if the lease has ended.
func (c *leaseContext) look() {
	if why := c.lease.Err(); why != nil {
		c.cancel(why)
	}
}

// Value implements context.Context.
func (c *leaseContext) Value(key any) any {
	if key == (leaseKey{}) {
		return c.lease
	}
	return c.Context.Value(key)
}

// LeaseFromContext returns the innermost lease that ctx carries, or nil. A ctx
// carries a lease if it is, or is derived from, the lease's Context. Do and Lead
// pass such a ctx to their function. The lease may have ended.
func LeaseFromContext(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// leaseIn returns the live lease of a resource that ctx carries, or nil.
func leaseIn(ctx context.Context, c *Client, res engine.Resource) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	for l != nil {
		if l.grant.covers(c, res) && l.Err() == nil {
			return l
		}
		l, _ = l.parent.Value(leaseKey{}).(*Lease)
	}
	return nil
}

// needContext panics if ctx is nil, as package context does.
func needContext(ctx context.Context) {
	if ctx == nil {
		panic("holdfast: nil Context")
	}
}

// until returns a ctx that also ends with another context. It returns a ctx
// that never ends unchanged: an engine makes such a call in the caller's
// goroutine, at a third of the cost, and bounds it by its own timeouts, as
// package engine requires.
func until(ctx, end context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	both := eitherctx.New(ctx, end)
	return both, both.Stop
}

// cutShort returns ErrClosed if Close may have ended a call, as until lets it, before the store
// answered, and otherwise the call's own error. ctx is the caller's.
func (c *Client) cutShort(ctx context.Context, err error) error {
	if c.life.Err() != nil && ctx.Done() != nil && ctx.Err() == nil && errors.Is(err, ErrUnavailable) {
		return ErrClosed
	}
	return err
}
