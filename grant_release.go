package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// release implements grant.
func (h *storeGrant) release(ctx context.Context, l *Lease, mark time.Duration) error {
	last, held, was := h.remove(l)
	broken := l.endReleased(held)
	c := h.client()
	if !last {
		if held && broken == nil && h.shared != nil {
			h.reportRelease(l, HandOffProcess)
		}
		return broken
	}
	h.releaseLocal()
	if was == grantBroken { // the break has handed the turn off
		h.releaseBroken(ctx)
		return h.endError() // also if this release ended the lease first
	}
	if !c.gate.JoinCleanup() {
		if broken != nil {
			return broken
		}
		return opError("release", h.acquirer.name, ErrClosed)
	}
	defer c.gate.Leave()
	start, counts := h.start(l)
	to, err := h.handOffOrRelease(ctx, mark)
	if to != HandOffProcess && to != HandOffLinger {
		h.endJeopardy(ErrReleased)
	}
	if counts && h.acquirer.reportsReleases() {
		h.acquirer.released(h.id(), h.releaseEvent(l.token, c.keep.Mono()-start.at, to, err), start.lease)
	}
	if broken != nil {
		return broken
	}
	return err
}

// reportRelease reports the release of a lease of a shared grant without a call to the store.
func (h *storeGrant) reportRelease(l *Lease, to HandOff) {
	start, counts := h.start(l)
	if counts && h.acquirer.reportsReleases() {
		h.acquirer.released(h.id(), h.releaseEvent(l.token, h.client().keep.Mono()-start.at, to, nil), start.lease)
	}
}

func (h *storeGrant) releaseEvent(token uint64, held time.Duration, to HandOff, err error) ReleaseEvent {
	return ReleaseEvent{Resource: h.acquirer.name, Kind: string(h.acquirer.kind), Token: token, Held: held, HandOff: to, Err: err}
}

// remove removes a lease, once, and returns the state before. If that was held, the caller that removes the
// last lease owns the turn.
func (h *storeGrant) remove(l *Lease) (last, held bool, was grantState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	held, was = h.leases.remove(l), h.state
	last = held && h.unused()
	if last && was == grantHeld {
		h.state = grantPassing
	}
	return last, held, was
}

// setLocal sets the local hold of the current turn. It returns false if l has ended, or was broken.
func (h *storeGrant) setLocal(l *Lease, p *localHold) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != grantHeld || !h.leases.has(l) {
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
// processes, or releases it. It owns the local turn and hands that off in a deferred
// call, so that an error or a panic does not lose it.
func (h *storeGrant) handOffOrRelease(ctx context.Context, mark time.Duration) (to HandOff, err error) {
	c := h.client()
	if h.line != nil && h.line.Waiting() > 0 && h.mayHandOff() && c.lines.TryHandOff(h.line, localTurn{grant: h}) {
		return HandOffProcess, nil
	}
	if mark == 0 && h.keepLingering() {
		return HandOffLinger, nil
	}
	h.end(nil)
	var next localTurn
	defer func() { c.handOff(h.line, next) }()
	// A yield does not withdraw the holder ID, which must be if copies of its
	// acquire may be under way.
	if h.line != nil && h.line.Waiting() > 0 && !h.unsure {
		return HandOffYield, h.yield(ctx, &next)
	}
	return HandOffStore, h.releaseStore(ctx, mark)
}

// mayHandOff reports whether the next local waiter may get the grant: the time slice is
// not over, and enough of the trust window is left.
func (h *storeGrant) mayHandOff() bool {
	now := h.client().keep.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == grantPassing && h.token < h.topToken() &&
		h.entry.Window.Left(now) > min(h.entry.TTL/4, time.Second) &&
		h.slice.Take(now.Mono)
}

// yield releases the grant and queues again for the next local waiter, in one step of
// the store. next is always what that waiter gets if yield ends at that point.
func (h *storeGrant) yield(ctx context.Context, next *localTurn) error {
	c := h.client()
	a := h.acquirer.newAttempt(int(h.weight), h.line, andWait, SpanRef{})
	a.yields(h)
	if c.wakeups.live() {
		a.listenFor()
	} else {
		a.recallable = false
	}
	*next = localTurn{attempt: a}
	call, cancel := c.releaseContext(ctx)
	defer cancel()
	ans, sent, err := a.send(call)
	switch {
	case err == nil && ans.Status == engine.Granted:
		if granted := a.newGrant(sent, ans.Token, ans.TTL); granted != nil {
			*next = localTurn{grant: granted}
		}
	case errors.Is(err, ErrUnavailable):
		err = opError("release", h.acquirer.name, err)
	case err == nil, errors.Is(err, engine.ErrEnded):
		err = nil
	case errors.Is(err, ErrMismatch):
		// The store released the grant before it checked the new request.
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
// process waits, each slice that was used up makes the next one longer.
func (h *storeGrant) nextReserve() uint64 {
	switch {
	case h.linger != nil:
		return h.linger.nextReserve(h)
	case !h.unrivalled:
		return tenure.MaxHandOffs
	}
	sent := h.entry.Window.End() - (h.entry.TTL - keepalive.Margin(h.entry.TTL))
	used := int(h.token - h.held.Token)
	return uint64(h.slice.Longer(int(h.reserved), used, h.client().keep.Mono(), sent))
}

func (h *storeGrant) releaseRequest() engine.Release {
	return engine.Release{
		Resource: h.acquirer.resource(),
		Held:     h.held,
		Withdraw: h.unsure,
	}
}

// releaseContext bounds a call that must be made even if ctx has ended. It also ends
// when the timeout of Close is over.
func (c *Client) releaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return until(ctx, c.tasks)
	}
	call, _ := until(context.WithoutCancel(ctx), c.tasks)
	return context.WithTimeout(call, releaseGrace)
}

// releaseStore releases the grant in the store, and marks the resource as done for mark,
// unless that is 0. A release that the store does not confirm continues in the background;
// a mark is retried until ctx ends or the lease must have expired.
func (h *storeGrant) releaseStore(ctx context.Context, mark time.Duration) error {
	c, op, retries := h.client(), "release", fewRetries
	if mark > 0 {
		op, retries = "finish", noLimit
		bounded, cancel := context.WithTimeout(ctx, max(time.Until(h.deadline()), releaseGrace))
		defer cancel()
		ctx = bounded // before releaseContext: of a ctx that ends, the call also ends with the client
	}
	call, cancel := c.releaseContext(ctx)
	defer cancel()
	// Not a withdrawal: the store confirms that even if the lease was gone. If copies of
	// the acquire may be under way, it follows.
	r := h.releaseRequest()
	r.Withdraw, r.Mark = false, mark
	err := ErrUnavailable // also if the engine panics
	defer func() { h.releaseRest(r, err) }()
	err = retry(call, retries, func() error { return c.engine.Release(call, r) })
	gone, ok := errors.AsType[*engine.NotHeldError](err)
	switch {
	case err == nil:
		return nil
	case ok:
		return h.gone(gone)
	case mark > 0 && errors.Is(err, ErrUnavailable):
		return opError(op, h.acquirer.name, fmt.Errorf("whether it is marked as done is unknown: %w", err))
	}
	return opError(op, h.acquirer.name, err)
}

// releaseRest continues a release with this outcome in the background, if anything is left
// to do.
func (h *storeGrant) releaseRest(r engine.Release, err error) {
	var rest []engine.Release
	if !isFinal(err) {
		rest = append(rest, r)
	}
	if h.unsure || r.Mark > 0 && errors.Is(err, ErrDenied) { // without the mark it may be allowed
		rest = append(rest, h.releaseRequest())
	}
	if len(rest) == 0 {
		return
	}
	done := h.client().queueRelease(h.entry.TTL, rest...)
	if isFinal(err) {
		await(done, callGrace) // usually enough for the release to be complete
	}
}
