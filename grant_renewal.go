package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Renewal implements keepalive.Keeper.
func (h *storeGrant) Renewal() engine.Renewal {
	return engine.Renewal{Resource: h.acquirer.resource(), Held: h.held, TTL: h.entry.TTL}
}

// Renewed implements keepalive.Keeper. With the first renewal it opens the stream of
// wake-ups, over which a break arrives at once; shorter leases do without one.
func (h *storeGrant) Renewed(took time.Duration) {
	defer h.client().breaker.answered() // last, since a hook may panic
	h.client().wakeups.listenSoon()
	h.endJeopardy(nil)
	h.client().leaseLog.renewed(h, nil)
	for _, hook := range h.client().hooks.renew {
		hook.Renew(RenewEvent{Resource: h.acquirer.name, Token: h.present(), Took: took, Left: h.left()})
	}
}

// Jeopardy implements keepalive.Keeper.
func (h *storeGrant) Jeopardy(err error, took time.Duration) {
	left := h.left()
	c := h.client()
	h.jeopardy.CompareAndSwap(renewalDone, renewalFailed)
	c.leaseLog.renewed(h, err)
	for _, hook := range c.hooks.renew {
		hook.Renew(RenewEvent{Resource: h.acquirer.name, Token: h.present(), Took: took, Left: left, Err: err})
	}
	if h.linger != nil {
		h.endLinger()
	}
	h.startJeopardy(left, err)
}

// Lost implements keepalive.Keeper.
func (h *storeGrant) Lost(cause *engine.NotHeldError, last error) (free, report func()) {
	if cause != nil {
		return h.endLost(h.gone(cause))
	}
	return h.endLost(h.expired(last))
}

// gone returns the loss of a lease that the store no longer has.
func (h *storeGrant) gone(cause *engine.NotHeldError) *LostError {
	return &LostError{Resource: h.acquirer.name, Token: h.present(), Cause: lostCause(cause.Cause), Reason: cause.Reason}
}

// expired returns the loss of a lease whose trust window has closed.
func (h *storeGrant) expired(last error) *LostError {
	e := &LostError{Resource: h.acquirer.name, Token: h.present(), Cause: LostExpired}
	if last != nil {
		e.Cause, e.err = LostUnreachable, last
	}
	return e
}

func (h *storeGrant) present() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}
