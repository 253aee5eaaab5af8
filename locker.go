package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// locker is what all locks have in common: how to get a lease on a resource.
type locker struct {
	c    *Client
	name string
	*terms
}

// terms are what a locker asks for. They are never changed: the lockers of a
// client share them where they are the same, since each held lease keeps one.
type terms struct {
	kind     engine.Kind
	capacity int
	opts     lockOptions
	mark     time.Duration // the grant marks the resource as done for so long; 0: it does not
	prefix   string        // of the resource, if it is not the client's
}

// on makes a locker of these terms, or of the latest ones if they are the same:
// most locks of a program are alike.
func (t terms) on(c *Client, name string) locker {
	if t.opts.err != nil { // it may be of a type that cannot be compared
		own := t
		return locker{c, name, &own}
	}
	last := c.terms.Load()
	if last == nil || *last != t {
		own := t
		last = &own
		c.terms.Store(last)
	}
	return locker{c, name, last}
}

// resource names what is locked to the engine.
func (lk *locker) resource() engine.Resource {
	r := lk.c.resource(lk.name)
	if lk.prefix != "" {
		r.Prefix = lk.prefix
	}
	return r
}

// lineKey says which callers of a process can pass a lease on to each other:
// those who would ask the store for the same.
type lineKey struct {
	name string
	// what is the TTL and the fallback, in one number since there is a line for
	// each held lease. Nobody waits behind one who waits longer for the store.
	what int64
}

type line = tenure.Line[lineKey, turn]

// turn is what passes from one local waiter to the next: a live holding, or a
// place in the store's queue, or neither, and the receiver starts afresh.
//
// The turn of a line has one owner at a time: a caller in queue or once, until it
// has a lease; the lease, until it is released; then handOn. Each of these
// functions passes it on in a deferred call, so that no way out of them, an error,
// a panic or runtime.Goexit, loses it.
type turn struct {
	holding *holding
	attempt *attempt
}

// tenured tells whether callers of one process queue among themselves. Only
// where one holder has it all can a lease pass from hand to hand; and a lease
// that is not renewed cannot be passed on with its full TTL.
func (lk *locker) tenured() bool {
	return lk.kind == engine.KindMutex && !lk.opts.noTenure && !lk.opts.noRenewal
}

// fewHandOffs is what is reserved while nobody waits. Tokens follow the store's
// clock in microseconds, so reserving many for every pair of a caller that locks
// and unlocks in a loop would make them run ahead of it.
const fewHandOffs = 16

// reserve says how many tokens to ask for, for local hand-offs.
func (lk *locker) reserve(l *line) uint64 {
	switch {
	case l == nil:
		return 0
	case l.Waiting() > 0:
		return tenure.MaxHandOffs
	default:
		return fewHandOffs
	}
}

func (lk *locker) key() lineKey {
	return lineKey{lk.name, int64(lk.opts.ttl)<<8 | int64(lk.opts.fallback)}
}

// lock waits for a lease until ctx ends.
func (lk *locker) lock(ctx context.Context, weight int) (*Lease, error) {
	return lk.acquire(ctx, weight, true)
}

// try asks for a lease once.
func (lk *locker) try(ctx context.Context, weight int) (*Lease, error) {
	return lk.acquire(ctx, weight, false)
}

// acquire does what both have in common: checks, re-entry, hooks.
func (lk *locker) acquire(ctx context.Context, weight int, queue bool) (*Lease, error) {
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
		l, _, err := lk.acquireChecked(ctx, weight, queue)
		return l, err
	}
	return lk.acquireHooked(ctx, weight, queue)
}

// acquireHooked is acquireChecked with the hooks around it. A lease that a hook
// keeps from the caller, since it panics, is released.
func (lk *locker) acquireHooked(ctx context.Context, weight int, queue bool) (*Lease, error) {
	c, start := lk.c, time.Now()
	for _, hook := range c.hooks.acquireStart {
		hook.AcquireStart(ctx, AcquireStart{Resource: lk.name, Kind: string(lk.kind), Weight: weight})
	}
	l, source, err := lk.acquireChecked(ctx, weight, queue)
	returned := false
	defer func() {
		if l != nil && !returned {
			_ = l.Release(ctx) // what is not confirmed goes on in the background
		}
	}()
	e := AcquireEnd{Resource: lk.name, Kind: string(lk.kind), Weight: weight,
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

func (lk *locker) acquireChecked(ctx context.Context, weight int, queue bool) (*Lease, Source, error) {
	if ctx.Err() != nil {
		return nil, 0, &waitError{lk.name, context.Cause(ctx), nil}
	}
	if own := leaseIn(ctx, lk.c, lk.resource()); own != nil && lk.kind != engine.KindSemaphore {
		l, err := own.footing.reenter(own, ctx, lk, weight)
		if err != nil {
			return nil, 0, err
		}
		if l != nil {
			return l, FromContext, nil
		}
	}
	return lk.get(ctx, weight, queue)
}

// wait gets a lease, in turn.
func (lk *locker) wait(ctx context.Context, weight int) (*Lease, Source, error) {
	if !lk.tenured() {
		return lk.queue(ctx, lk.newAttempt(weight, nil))
	}
	c := lk.c
	line, w := c.lines.Join(lk.key())
	if w == nil {
		return lk.queue(ctx, lk.newAttempt(weight, line))
	}
	var t turn
	select {
	case <-w.Ready:
		t = c.lines.Accept(w)
	case <-ctx.Done():
		return nil, 0, lk.cancel(line, w, context.Cause(ctx))
	case <-c.life.Done():
		return nil, 0, lk.cancel(line, w, ErrClosed)
	}
	if t.holding != nil {
		if l := t.holding.take(ctx); l != nil {
			return l, FromProcess, nil
		}
	}
	if t.attempt == nil {
		return lk.queue(ctx, lk.newAttempt(weight, line))
	}
	a := *t.attempt
	a.lk, a.silent = lk, time.Time{} // how patient the one before was is not this caller's
	return lk.queue(ctx, a)
}

// cancel gives up a wait in the line.
func (lk *locker) cancel(l *line, w *tenure.Waiter[turn], why error) error {
	if t, got := lk.c.lines.Cancel(l, w); got {
		lk.c.passOn(l, t)
	}
	return &waitError{lk.name, why, nil}
}

// queue gets a lease from the store. The caller has the turn of the line, if
// there is one: the lease takes it over, and without a lease it is passed on in
// the one deferred call, whatever happened, a panic and runtime.Goexit included.
func (lk *locker) queue(ctx context.Context, a attempt) (l *Lease, source Source, err error) {
	defer func() {
		if l == nil {
			a.end(ctx)
		}
	}()
	call, cancel := until(ctx, lk.c.life)
	defer cancel()
	for {
		h, source, err := a.run(ctx, call)
		if err != nil {
			return nil, 0, err
		}
		if l := h.take(ctx); l != nil {
			return l, source, nil
		}
		if h.broken() {
			return nil, 0, &waitError{lk.name, errBrokenWait, nil}
		}
		a = lk.newAttempt(a.req.Weight, a.line) // it was lost before anybody stood on it
	}
}

// once asks the store for a lease and does not wait. It takes part in the line
// only if nobody is there. It has the turn as queue has.
func (lk *locker) once(ctx context.Context, weight int) (l *Lease, _ Source, err error) {
	var line *line
	if lk.tenured() {
		line = lk.c.lines.TryJoin(lk.key())
	}
	a := lk.newAttempt(weight, line)
	a.req.Queue = false
	defer func() {
		if l == nil {
			a.end(ctx)
		}
	}()
	call, cancel := until(ctx, lk.c.life)
	defer cancel()
	for {
		h, err := a.try(ctx, call)
		if err != nil {
			return nil, 0, err
		}
		if l := h.take(ctx); l != nil {
			return l, FromStore, nil
		}
		if h.broken() {
			return nil, 0, &waitError{lk.name, errBrokenWait, nil}
		}
		a = lk.newAttempt(weight, line)
		a.req.Queue = false
	}
}

// passOn gives the turn of a line to the next local waiter. With nobody waiting,
// or without a line, what the turn carries goes back to the store.
func (c *Client) passOn(l *line, t turn) {
	if l != nil && c.lines.Pass(l, t) {
		return
	}
	if t.attempt != nil {
		t.attempt.abandon()
	}
	if t.holding != nil {
		if _, was := t.holding.finish(nil); was != holdingEnded {
			c.cleanup(t.holding.entry.TTL, t.holding.releaseRequest())
		}
	}
}
