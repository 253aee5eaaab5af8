package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// acquirer is what all locks have in common: how to acquire a lease on a resource. The
// way of one Lock: acquire (checks, re-entry, hooks), acquireOrFallBack (WithFallback),
// acquireLocal (the line inside the process), acquireStore (the line in the store),
// attempt.run.
type acquirer struct {
	c    *Client
	name string
	*lockSpec
}

// lockSpec is what an acquirer requests. It is immutable: acquirers of a client with equal
// specs share one, since each grant keeps it.
type lockSpec struct {
	kind     engine.Kind
	capacity int
	opts     lockOptions
	mark     time.Duration // how long the grant marks the resource as done; 0: no mark
	prefix   string        // of the resource, if it is not the client's
}

// on returns an acquirer with this spec. It reuses the latest spec of the client if that
// is equal, as it usually is.
func (t lockSpec) on(c *Client, name string) acquirer {
	if t.opts.err != nil { // its type may not be comparable
		own := t
		return acquirer{c, name, &own}
	}
	last := c.latestSpec.Load()
	if last == nil || *last != t {
		own := t
		last = &own
		c.latestSpec.Store(last)
	}
	return acquirer{c, name, last}
}

// resource returns the name of the resource for the engine.
func (lk *acquirer) resource() engine.Resource {
	r := lk.c.resource(lk.name)
	if lk.prefix != "" {
		r.Prefix = lk.prefix
	}
	return r
}

// lock waits for a lease until ctx ends.
func (lk *acquirer) lock(ctx context.Context, weight int) (*Lease, error) {
	return lk.acquire(ctx, weight, true)
}

// try requests a lease once.
func (lk *acquirer) try(ctx context.Context, weight int) (*Lease, error) {
	return lk.acquire(ctx, weight, false)
}

// acquire checks the options and runs the hooks.
func (lk *acquirer) acquire(ctx context.Context, weight int, queue bool) (*Lease, error) {
	c := lk.c
	if lk.opts.err != nil {
		return nil, lk.opts.err
	}
	needContext(ctx)
	if !c.gate.enter() {
		return nil, &waitError{lk.name, ErrClosed, nil}
	}
	defer c.gate.leave()
	if len(c.hooks.acquireStart) == 0 && len(c.hooks.acquireEnd) == 0 {
		l, _, err := lk.acquireReentrant(ctx, weight, queue)
		return l, err
	}
	return lk.acquireHooked(ctx, weight, queue)
}

// acquireHooked is acquireReentrant with hooks around it. If a hook panics, the lease is
// released, since the caller does not get it.
func (lk *acquirer) acquireHooked(ctx context.Context, weight int, queue bool) (*Lease, error) {
	c, start := lk.c, time.Now()
	for _, hook := range c.hooks.acquireStart {
		hook.AcquireStart(ctx, AcquireStartEvent{Resource: lk.name, Kind: string(lk.kind), Weight: weight})
	}
	l, source, err := lk.acquireReentrant(ctx, weight, queue)
	returned := false
	defer func() {
		if l != nil && !returned {
			_ = l.Release(ctx) // retried in the background if it is not confirmed
		}
	}()
	e := AcquireEndEvent{Resource: lk.name, Kind: string(lk.kind), Weight: weight,
		Waited: time.Since(start), Source: source, Err: err}
	if l != nil {
		e.Token = l.token
	}
	for _, hook := range c.hooks.acquireEnd {
		hook.AcquireEnd(ctx, e)
	}
	returned = true
	return l, err
}

func (lk *acquirer) acquireReentrant(ctx context.Context, weight int, queue bool) (*Lease, Source, error) {
	if ctx.Err() != nil {
		return nil, 0, &waitError{lk.name, context.Cause(ctx), nil}
	}
	if own := leaseIn(ctx, lk.c, lk.resource()); own != nil && lk.kind != engine.KindSemaphore {
		l, err := own.grant.reenter(own, ctx, lk, weight)
		if err != nil {
			return nil, 0, err
		}
		if l != nil {
			return l, SourceContext, nil
		}
	}
	return lk.acquireOrFallBack(ctx, weight, queue)
}
