package holdfast

import "context"

// acquireStore acquires a lease from the store; the request of the attempt says whether it
// waits in the store's queue. The caller owns the turn of the line, if there is one: the
// lease takes it over; without a lease the one deferred call hands it off, also after a
// panic or runtime.Goexit.
func (lk *acquirer) acquireStore(ctx context.Context, a attempt) (l *Lease, source Source, err error) {
	defer func() {
		if l == nil {
			a.endWait(ctx)
		}
	}()
	call, cancel := until(ctx, lk.c.life)
	defer cancel()
	for queue := a.req.Queue; ; a.req.Queue = queue {
		var h *storeGrant
		if queue {
			h, source, err = a.run(ctx, call)
		} else {
			h, source, err = a.try(ctx, call)
		}
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
// that is empty.
func (lk *acquirer) acquireOnce(ctx context.Context, weight int) (*Lease, Source, error) {
	var line *line
	if lk.handsOff() {
		line = lk.c.lines.TryJoin(lk.key())
	}
	a := lk.newAttempt(weight, line)
	a.req.Queue = false
	return lk.acquireStore(ctx, a)
}
