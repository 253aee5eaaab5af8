package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/engine"
)

// leaseContext is the context of a lease. It looks at the clock whenever it is
// asked, so that a process that was paused is told before it goes on, not when
// the timer gets to run.
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

// LeaseFromContext returns the innermost lease that ctx carries, as the ctx does that
// Do and Lead give to their function, or nil. The lease may have ended.
func LeaseFromContext(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// leaseIn returns the live lease that ctx carries of a resource, or nil.
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

// needContext panics if ctx is nil, before anything is done, as package context
// does.
func needContext(ctx context.Context) {
	if ctx == nil {
		panic("holdfast: nil Context")
	}
}

// until returns ctx, ended also by the end of another context. A ctx that never
// ends stays as it is: an engine makes such a call in the caller's goroutine, at
// a third of the cost, and bounds it by its own timeouts, as the contract says.
func until(ctx, end context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(end, cancel)
	return both, func() {
		stop()
		cancel()
	}
}
