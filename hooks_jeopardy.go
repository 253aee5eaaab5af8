package holdfast

import "time"

// A JeopardyStartHook is called when the renewal of a lease is overdue: a
// renewal failed, and less than half of the TTL is left. The holder may
// continue, and the client retries until the trust window closes. It is called
// once until the jeopardy ends.
type JeopardyStartHook interface{ JeopardyStart(e JeopardyStartEvent) }

// A JeopardyStartEvent is the moment at which a renewal is overdue.
type JeopardyStartEvent struct {
	Resource string
	Kind     string
	Token    uint64
	Left     time.Duration // until the trust window closes
	Err      error         // of the latest renewal
}

// A JeopardyEndHook is called when the jeopardy of a lease ends: it was renewed,
// lost, or ended by its holder.
type JeopardyEndHook interface{ JeopardyEnd(e JeopardyEndEvent) }

// A JeopardyEndEvent is the end of a jeopardy.
type JeopardyEndEvent struct {
	Resource string
	Kind     string
	Token    uint64
	Left     time.Duration // until the trust window closes
	Err      error         // nil: renewed; else ErrReleased, or ErrLost
}

// The results of the latest renewal of a grant.
const (
	renewalDone    uint32 = iota
	renewalFailed         // it failed
	renewalOverdue        // and its jeopardy was reported
)

// startJeopardy reports a jeopardy to the log and to hooks, if the grant has come into one.
func (h *storeGrant) startJeopardy(left time.Duration, err error) {
	if left >= h.entry.TTL/2 || !h.jeopardy.CompareAndSwap(renewalFailed, renewalOverdue) {
		return
	}
	c := h.client()
	if c.logLimit.admits(&c.logLimit.jeopardy) {
		c.log.Warn("holdfast: renewal overdue; retrying until the trust window closes",
			"resource", h.acquirer.name, "kind", string(h.acquirer.kind), "token", h.present(), "left", left, "err", err)
	}
	for _, hook := range c.hooks.jeopardyStart {
		hook.JeopardyStart(JeopardyStartEvent{
			Resource: h.acquirer.name, Kind: string(h.acquirer.kind), Token: h.present(), Left: left, Err: err,
		})
	}
	if h.ended() { // in between
		h.endJeopardy(h.endError())
	}
}

// endJeopardy reports the end of a jeopardy, if there was one. If why is nil, the lease
// was renewed.
func (h *storeGrant) endJeopardy(why error) {
	if h.jeopardy.Load() == renewalDone || h.jeopardy.Swap(renewalDone) != renewalOverdue { // rare, and a load is cheaper than a swap
		return
	}
	for _, hook := range h.client().hooks.jeopardyEnd {
		hook.JeopardyEnd(JeopardyEndEvent{
			Resource: h.acquirer.name, Kind: string(h.acquirer.kind), Token: h.present(), Left: max(h.left(), 0), Err: why,
		})
	}
}
