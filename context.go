package holdfast

import "context"

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

// leaseIn returns the live lease of a resource that ctx carries, or nil.
func leaseIn(ctx context.Context, c *Client, name string) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	for l != nil {
		if l.holding.c == c && l.holding.lk.name == name && l.Err() == nil {
			return l
		}
		l, _ = l.parent.Value(leaseKey{}).(*Lease)
	}
	return nil
}

// until returns ctx, ended also by the end of another context.
func until(ctx, end context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return borrowed{Context: end, values: ctx}, func() {}
	}
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(end, cancel)
	return both, func() {
		stop()
		cancel()
	}
}

// borrowed is a context that never ends by itself, with the end of another one.
// It costs one allocation, where a context of two costs eight.
type borrowed struct {
	context.Context
	values context.Context
}

// Value implements context.Context. The end comes first: package context looks
// there for how to be told of it.
func (b borrowed) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.values.Value(key)
}
