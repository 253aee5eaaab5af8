package holdfast

import (
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
)

func (h *storeGrant) ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == grantEnded
}

// brokenFor returns the reason of the operator who broke it, if one did.
func (h *storeGrant) brokenFor() (reason string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == nil || h.why.Cause != LostBroken {
		return "", false
	}
	return h.why.Reason, true
}

// wake handles a wake-up: a break or a recall. All others are ignored.
func (h *storeGrant) wake(w engine.Wakeup) {
	switch w.Kind {
	case engine.WakeWanted:
		h.recall(true)
	case engine.Resync: // a recall may have been lost
		h.recall(false)
	case engine.WakeBroken:
		h.lose(&LostError{Resource: h.acquirer.name, Token: h.present(), Cause: LostBroken, Reason: w.Reason})
	}
}

// open implements grant. If the trust window has passed, it ends the grant here, so that
// a process that was paused gets the loss before any timer has run.
func (h *storeGrant) open() bool {
	if h.left() > 0 {
		return true
	}
	h.lose(h.expired(h.client().keep.Trouble(&h.entry)))
	return false
}

// lose ends the grant as lost and does all that follows.
func (h *storeGrant) lose(why *LostError) {
	free, report := h.endLost(why)
	if free != nil {
		free()
	}
	if report != nil {
		report()
	}
}

// endLost ends the grant as lost, and its leases. Once all grants that are lost at this
// moment have ended, the caller must run free, and then report; each is nil if there is
// nothing to do.
func (h *storeGrant) endLost(why *LostError) (free, report func()) {
	if why.Cause == LostBroken {
		switch leases, was := h.endBroken(why); was {
		case grantHeld:
			// The next local callers queue in the store.
			return func() { h.client().handOff(h.line, localTurn{}) }, func() { h.report(why, leases) }
		case grantBroken: // the same break was heard before
			return nil, nil
		}
	}
	joined := h.client().gate.JoinCleanup() // first: Close finds the grant, or waits for its release
	leases, was := h.end(why)
	switch was {
	case grantEnded, grantBroken:
		if joined {
			h.client().gate.Leave()
		}
		if was == grantBroken {
			free = h.expireBroken
		}
		return free, nil
	}
	for _, l := range leases {
		_ = l.end(why)
	}
	free = func() { h.releaseAfterLoss(why, was, joined) }
	if was != grantHeld {
		return free, func() { h.endJeopardy(why) }
	}
	return free, func() { h.report(why, leases) }
}

// releaseAfterLoss lets others have what a lost grant has kept from them, once its leases have ended. It leaves the
// gate if that was joined, so that Close does not wait for hooks.
func (h *storeGrant) releaseAfterLoss(why *LostError, was grantState, joined bool) {
	c := h.client()
	if joined {
		defer c.gate.Leave() // also if a hook panics because too many releases are queued
	}
	h.releaseLocal()
	if was == grantHeld {
		c.handOff(h.line, localTurn{}) // the local turn is free, although the holder has not released yet
	}
	switch {
	case why.Cause == LostBroken && h.acquirer.kind != engine.KindCond: // it backs no lease; that of a condition was ended by a signal
		c.queueRelease(h.entry.TTL, h.releaseRequest())
	case why.Cause == LostUnreachable || why.Cause == LostExpired || h.unsure:
		// The store may keep it a little longer, or have renewed it just now, or
		// make it again when a late copy of its acquire arrives.
		h.releaseSoon(h.entry.TTL)
	}
}

// releaseSoon releases a grant after a pause. In the store the lease lasts for so long at most.
func (h *storeGrant) releaseSoon(lasts time.Duration) {
	h.client().queueReleaseAfter(min(keepalive.Margin(h.entry.TTL), lostGrace), lasts, h.releaseRequest())
}

// report reports a loss to the log and to the hooks.
func (h *storeGrant) report(why *LostError, leases []*Lease) {
	c, starts := h.client(), h.starts(leases)
	for range starts {
		c.counts.lose(why.Cause)
	}
	if c.logLimit.admits(&c.logLimit.lost) {
		c.log.Error("holdfast: lease lost", "resource", h.acquirer.name, "kind", string(h.acquirer.kind),
			"token", why.Token, "cause", why.Cause.String(), "err", why.err)
	}
	h.endJeopardy(why)
	if why.Cause == LostBroken {
		c.hooks.breakReceived(h.acquirer, why.Token)
	}
	for _, start := range starts {
		h.acquirer.lost(why, c.keep.Mono()-start.at, start.lease)
	}
}

// endError implements grant.
func (h *storeGrant) endError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != nil {
		return h.why
	}
	return ErrReleased
}

// end moves to the ended state, with a reason if the grant is lost. It returns the leases
// that it backed, and the state before.
func (h *storeGrant) end(why *LostError) ([]*Lease, grantState) {
	h.mu.Lock()
	was, leases := h.state, h.leases
	h.leases = nil
	h.state = grantEnded
	if was < grantBroken {
		h.why = why
	}
	h.mu.Unlock()
	if was != grantEnded {
		h.client().keep.Remove(&h.entry)
		h.client().wakeups.remove(h.id())
		h.stopLinger()
		if h.shared != nil {
			h.client().shared.drop(h)
		}
	}
	return leases, was
}
