package holdfast

import (
	"context"
)

// acquireQueued acquires a lease from the store, in the store's queue. The caller owns the
// turn of the line, if there is one: the lease takes it over; without a lease the one
// deferred call hands it off, also after a panic or runtime.Goexit.
func (lk *acquirer) acquireQueued(ctx context.Context, a attempt) (l *Lease, source Source, err error) {
	defer func() {
		if l == nil {
			a.endWait(ctx)
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
		a = lk.newAttempt(a.req.Weight, a.line) // it was lost before it backed a lease
	}
}

// acquireOnce requests a lease from the store and does not wait. It joins the line only if
// that is empty, and owns the turn as acquireQueued does.
func (lk *acquirer) acquireOnce(ctx context.Context, weight int) (l *Lease, _ Source, err error) {
	var line *line
	if lk.handsOff() {
		line = lk.c.lines.TryJoin(lk.key())
	}
	a := lk.newAttempt(weight, line)
	a.req.Queue = false
	defer func() {
		if l == nil {
			a.endWait(ctx)
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
			return l, SourceStore, nil
		}
		if h.broken() {
			return nil, 0, &waitError{lk.name, errBrokenWait, nil}
		}
		a = lk.newAttempt(weight, line)
		a.req.Queue = false
	}
}
