package holdfast

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/keepalive"
)

// If an operator breaks a lease, its Lease ends at once, but the grant excludes others
// until the last Release of its leases or the end of its trust window, when the client
// releases it. A grant that backs no lease at that moment, between two
// local turns, is released at once.

// brokenGrants are a client's grants that were broken and are not released yet. Each is
// counted by the gate, so that Close waits for it. The zero value is ready.
type brokenGrants struct {
	mu  sync.Mutex
	all map[*storeGrant]func() bool // stops the callback that ends it at Close
}

// add adds a grant, unless the client is closed.
func (b *brokenGrants) add(h *storeGrant) bool {
	c := h.client()
	if !c.gate.JoinCleanup() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = make(map[*storeGrant]func() bool)
	}
	b.all[h] = context.AfterFunc(c.life, h.closeBroken)
	return true
}

// take removes a grant and reports whether it was there. If so, the caller must leave the
// gate once the grant is released.
func (b *brokenGrants) take(h *storeGrant) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	stop, found := b.all[h]
	if found {
		stop()
		delete(b.all, h)
	}
	return found
}

// endBroken moves from held to broken and ends the leases. It returns them, and the state before if that was
// grantHeld or grantBroken. Otherwise it returns grantEnded: no Release is to come that it could wait for.
func (h *storeGrant) endBroken(why *LostError) (leases []*Lease, was grantState) {
	c := h.client()
	h.mu.Lock()
	if h.state == grantBroken {
		h.mu.Unlock()
		return nil, grantBroken
	}
	if h.state != grantHeld || !c.broken.add(h) {
		h.mu.Unlock()
		return nil, grantEnded
	}
	h.state, h.why = grantBroken, why
	leases = slices.Clone(h.leases)
	h.mu.Unlock()
	c.keep.Remove(&h.entry)
	c.wakeups.remove(h.id())
	for _, l := range leases {
		_ = l.end(why)
	}
	c.keep.Add(&h.entry, keepalive.Never) // for the end of its trust window
	// Its holder may have released it meanwhile.
	if h.ended() {
		c.keep.Remove(&h.entry)
	}
	return leases, grantHeld
}

// releaseBroken releases a broken grant after its last lease, unless it was released or has expired meanwhile.
func (h *storeGrant) releaseBroken(ctx context.Context) {
	c := h.client()
	if !c.broken.take(h) {
		return
	}
	defer c.gate.Leave()
	h.end(nil)
	_ = h.releaseStore(ctx, 0) // the store answers "broken", or the release is retried in the background
}

// closeBroken releases a broken grant because the client closes.
func (h *storeGrant) closeBroken() {
	c := h.client()
	if !c.broken.take(h) {
		return
	}
	defer c.gate.Leave()
	h.end(nil)
	h.releaseLocal()
	c.queueRelease(h.entry.TTL, h.releaseRequest())
}

// expireBroken ends a broken grant that was never released.
func (h *storeGrant) expireBroken() {
	c := h.client()
	if !c.broken.take(h) {
		return
	}
	defer c.gate.Leave()
	h.releaseLocal()
	lasts := keepalive.Margin(h.entry.TTL) // it was not renewed since the break
	if h.unsure {
		lasts = h.entry.TTL
	}
	h.releaseSoon(lasts)
}
