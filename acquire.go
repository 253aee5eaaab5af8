package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// An acquirer acquires leases on one resource. All locks are built on it.
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
	if t.opts.linger > 0 && t.kind != engine.KindMutex && t.kind != engine.KindRW {
		t.opts.fail(optionError("a lock of kind %q with WithLinger: it is for a Mutex", t.kind))
	}
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

// The last parameter of acquire.
const (
	andWait = true  // in the queue, until ctx ends
	noWait  = false // request the lease and never queue
)

// acquire checks the options, re-enters a lease that ctx carries or acquires a new one,
// and runs the hooks.
func (lk *acquirer) acquire(ctx context.Context, weight int, wait bool) (l *Lease, err error) {
	c := lk.c
	if lk.opts.err != nil {
		return nil, lk.opts.err
	}
	needContext(ctx)
	if !c.gate.Enter() {
		return nil, &waitError{lk.name, ErrClosed, nil}
	}
	defer c.gate.Leave()
	start := time.Now()
	for _, hook := range c.hooks.acquireStart {
		hook.AcquireStart(ctx, AcquireStartEvent{Resource: lk.name, Kind: string(lk.kind), Weight: weight})
	}
	source := Source(0)
	var spans callSpans
	if l, err = lk.reenter(ctx, weight); l == nil && err == nil {
		spans.begin(ctx, c.hooks.trace)
	}
	switch {
	case err != nil:
	case l != nil:
		source = SourceContext
	case lk.opts.fallback == FailClosed:
		l, source, err = lk.acquireStore(ctx, weight, wait, &spans)
	default:
		l, source, err = lk.acquireOrFallBack(ctx, weight, wait, &spans)
	}
	var holder SpanRef
	if len(c.hooks.trace) > 0 {
		holder = spans.holder(err)
	}
	if len(c.hooks.broken) > 0 && endedByBreak(err) {
		c.hooks.breakReceived(lk, 0)
	}
	if len(c.hooks.acquireEnd) > 0 || c.recorder != nil || c.leaseLog.wants(lk.kind) {
		e := AcquireEndEvent{Resource: lk.name, Kind: string(lk.kind), Weight: weight, Waited: time.Since(start), Source: source, HolderSpan: holder, Err: err}
		c.recorder.acquireEnded(l, e, wait)
		c.acquireEnded(ctx, l, e)
	}
	return l, err
}

// reenter returns a further lease if ctx carries one of the resource, or an error if
// re-entry is not allowed. It returns nil if ctx carries none.
func (lk *acquirer) reenter(ctx context.Context, weight int) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, &waitError{lk.name, context.Cause(ctx), nil}
	}
	own := leaseIn(ctx, lk.c, lk.resource())
	if own == nil || lk.kind == engine.KindSemaphore {
		return nil, nil
	}
	return own.grant.reenter(own, ctx, lk, weight)
}

// acquireStore acquires a lease from the store. It owns the turn of its line, if there is
// one: the lease takes it over; without a lease the deferred call hands it off, also after
// a panic or runtime.Goexit.
func (lk *acquirer) acquireStore(ctx context.Context, weight int, wait bool, spans *callSpans) (l *Lease, source Source, err error) {
	shares := lk.shares(weight)
	if shares {
		if l := lk.joinShared(ctx); l != nil {
			return l, SourceProcess, nil
		}
	}
	line, t, err := lk.takeTurn(ctx, weight, wait, spans)
	for err == nil && t.seat {
		if l := t.grant.takeSeat(ctx); l != nil {
			return l, SourceProcess, nil
		}
		line, t, err = lk.takeTurn(ctx, weight, wait, spans) // it was lost meanwhile
	}
	if err != nil {
		return nil, 0, err
	}
	a := t.attempt
	defer func() {
		switch {
		case l != nil:
		case a == nil: // a hook panicked
			lk.c.handOff(line, localTurn{})
		default:
			a.endFailed(ctx, err)
		}
	}()
	if t.grant != nil && (!t.parked || t.grant.reusable()) {
		if l := t.grant.take(ctx); l != nil {
			return l, SourceProcess, nil
		}
	}
	if a == nil {
		a = lk.newAttempt(weight, line, wait, spans.own)
	}
	a.acquirer, a.silent, a.fallbackAfter = lk, t.silent, 0 // the time until a fallback is this caller's
	if t.parked {
		a.replace(t.grant)
	}
	for {
		h, source, err := a.run(ctx, spans)
		if err != nil {
			return nil, 0, err
		}
		if l := h.take(ctx); l != nil {
			if shares {
				h.share(line)
			}
			return l, source, nil
		}
		if reason, ok := h.brokenFor(); ok {
			return nil, 0, &waitError{lk.name, brokenWait(reason), nil}
		}
		a = lk.newAttempt(weight, line, wait, spans.own) // it was lost before it backed a lease
	}
}
