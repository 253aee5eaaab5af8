package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// remove implements grant.
func (h *storeGrant) remove(l *Lease) (last, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leases.remove(l) {
		return false, false
	}
	if h.leases.len() > 0 {
		return false, true
	}
	if h.state == grantHeld {
		h.state = grantPassing
	}
	return true, true
}

// releaseLast implements grant.
func (h *storeGrant) releaseLast(ctx context.Context, last *Lease) error {
	h.releaseLocal()
	if h.releaseBroken(ctx) {
		return h.ending()
	}
	if !h.client().gate.joinCleanup() {
		return opError("release", h.acquirer.name, ErrClosed)
	}
	defer h.client().gate.leave()
	if len(h.client().hooks.release) == 0 {
		return h.handOffOrRelease(ctx)
	}
	since := h.since
	err := h.handOffOrRelease(ctx)
	for _, hook := range h.client().hooks.release {
		hook.Release(ReleaseEvent{Resource: h.acquirer.name, Token: last.token, Held: h.client().keep.Mono() - since, Err: err})
	}
	return err
}

// setLocal sets the local hold of the current turn. It returns false if l has ended.
func (h *storeGrant) setLocal(l *Lease, p *localHold) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leases.has(l) {
		return false
	}
	h.local.Store(p)
	return true
}

// releaseLocal releases the local hold of a turn whose leases have ended.
func (h *storeGrant) releaseLocal() {
	if h.local.Load() != nil { // rare, and a load is cheaper than a swap
		h.local.Swap(nil).release()
	}
}

// handOffOrRelease hands the grant off inside the process, or yields it to other
// processes, or releases it. It owns the local turn and hands that off in the deferred
// call, whatever happens.
func (h *storeGrant) handOffOrRelease(ctx context.Context) error {
	c := h.client()
	if h.line != nil && h.line.Waiting() > 0 && h.mayHandOff() && c.lines.TryPass(h.line, localTurn{grant: h}) {
		return nil
	}
	h.end(nil)
	var next localTurn
	defer func() { c.handOff(h.line, next) }()
	// A yield does not withdraw the holder ID, which must be if copies of its
	// acquire may be under way.
	if h.line != nil && h.line.Waiting() > 0 && !h.unsure {
		return h.yield(ctx, &next)
	}
	return c.release(ctx, h)
}

// mayHandOff reports whether the next local waiter may get the grant: within the time
// slice, and with enough of the trust window left to be of use.
func (h *storeGrant) mayHandOff() bool {
	now := h.client().keep.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == grantPassing && h.token < h.topToken() &&
		h.entry.Window.Left(now) > min(h.entry.TTL/4, time.Second) &&
		h.slice.Take(now.Mono)
}

// yield releases the grant and queues again for the next local waiter, in one step of
// the store. At any moment next is what that waiter gets.
func (h *storeGrant) yield(ctx context.Context, next *localTurn) error {
	c := h.client()
	a := h.acquirer.newAttempt(int(h.weight), h.line).toHeap()
	a.req.Yields = h.held
	a.req.Reserve = h.nextReserve()
	if c.wakeups.live() {
		a.listenFor()
	}
	*next = localTurn{attempt: a}
	call, cancel := c.releaseContext(ctx)
	defer cancel()
	ans, sent, err := a.ask(call)
	switch {
	case err == nil && ans.Status == engine.Granted:
		if granted := a.newGrant(sent, ans.Token, ans.TTL, keepalive.Usual); granted != nil {
			granted.unrivalled = true
			*next = localTurn{grant: granted}
		}
	case errors.Is(err, ErrUnavailable):
		err = opError("release", h.acquirer.name, err)
	case err == nil, errors.Is(err, engine.ErrEnded):
		err = nil
	case errors.Is(err, ErrMismatch):
		// The release was done before the new request was looked at.
		c.wakeups.remove(a.req.ID)
		*next, err = localTurn{}, nil
	default:
		c.wakeups.remove(a.req.ID)
		*next, err = localTurn{}, opError("release", h.acquirer.name, err)
		c.queueRelease(h.entry.TTL, h.releaseRequest())
	}
	return err
}

// nextReserve returns how many tokens the process reserves when it yields. If no other
// process waits, each slice that was used up doubles the next one. Tokens follow the
// store's clock, so a process may not use more of them than microseconds pass.
func (h *storeGrant) nextReserve() uint64 {
	if h.unrivalled && h.token == h.topToken() {
		return max(tenure.MaxHandOffs, min(2*uint64(h.reserved), tenure.MaxAlone))
	}
	return tenure.MaxHandOffs
}

func (h *storeGrant) releaseRequest() engine.Release {
	return engine.Release{
		Resource: h.acquirer.resource(),
		Held:     h.held,
		Withdraw: h.unsure,
	}
}

// releaseContext bounds a call that must be made even if ctx has ended. It ends
// also when Close gives up.
func (c *Client) releaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return until(ctx, c.tasks)
	}
	call, _ := until(context.WithoutCancel(ctx), c.tasks) // without an end of its own
	return context.WithTimeout(call, releaseGrace)
}

// release releases a grant in the store. If the store does not confirm it in time, or
// the engine panics, it is retried in the background.
func (c *Client) release(ctx context.Context, h *storeGrant) error {
	answered := false
	defer func() {
		if !answered {
			c.queueRelease(h.entry.TTL, h.releaseRequest())
		}
	}()
	call, cancel := c.releaseContext(ctx)
	defer cancel()
	start := c.keep.Mono()
	// Not a withdrawal: the store confirms that even if the lease was gone. If copies
	// of the acquire may be under way, it follows.
	r := h.releaseRequest()
	r.Withdraw = false
	var slow backoff
	for {
		err := c.engine.Release(call, r)
		if h.unsure && !errors.Is(err, ErrUnavailable) && c.engine.Release(call, h.releaseRequest()) != nil {
			c.queueRelease(h.entry.TTL, h.releaseRequest())
		}
		answered = !errors.Is(err, ErrUnavailable)
		var gone *engine.NotHeldError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &gone):
			return &LostError{Resource: h.acquirer.name, Token: h.present(), Cause: lostCause(gone.Cause)}
		case answered:
			return opError("release", h.acquirer.name, err)
		}
		// A connection that the store had closed fails at its first use: retry a few
		// times, then in the background.
		if call.Err() != nil || c.keep.Mono()-start > releaseGrace || slow.n == 3 || !slow.pause(call) {
			return opError("release", h.acquirer.name, err)
		}
	}
}
