package holdfast

import "context"

// leaseContext is the context of a lease. It looks at the clock whenever it is
// asked, so that a process that was paused is told before it goes on, not when
// the timer gets to run.
type leaseContext struct {
	context.Context
	lease *Lease
}

// leaseKey is the key under which a context carries its lease.
type leaseKey struct{}

// Done implements context.Context.
func (c *leaseContext) Done() <-chan struct{} {
	_ = c.lease.Err() // closes the channel if the trust window has passed
	return c.Context.Done()
}

// Err implements context.Context.
func (c *leaseContext) Err() error {
	_ = c.lease.Err()
	return c.Context.Err()
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
