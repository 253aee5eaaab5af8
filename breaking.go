package holdfast

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/keepalive"
)

// A lease that an operator breaks ends for its holder, who is told at once, but
// goes on to keep others out while the holder may still be at it: until the last
// Release of those who stand on it, or the end of its trust window, after which
// the store passes it on by itself. If nobody stands on it, since it is on its way
// between two local callers, it is given back at once.

// breakings are a client's holdings that were broken and not given back yet. Each
// stays inside the gate, so that Close waits for it. The zero breakings is ready.
type breakings struct {
	mu  sync.Mutex
	all map[*holding]func() bool // what takes back its end at Close
}

// add registers a holding, unless the client is closed.
func (b *breakings) add(h *holding) bool {
	c := h.client()
	if !c.gate.join() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = make(map[*holding]func() bool)
	}
	b.all[h] = context.AfterFunc(c.life, h.breakingCloses)
	return true
}

// take strikes a holding out and tells whether it was there. Then the caller has
// to leave the gate when it has been given back.
func (b *breakings) take(h *holding) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	stop, found := b.all[h]
	if found {
		stop()
		delete(b.all, h)
	}
	return found
}

// breaks moves from held to broken and tells those who stand on it. What it
// returns is to be run when all are told; ok is false if nobody stands on it.
func (h *holding) breaks(why *LostError) (rest func(), ok bool) {
	c := h.client()
	h.mu.Lock()
	if h.state != holdingHeld || !c.breakings.add(h) {
		h.mu.Unlock()
		return nil, false
	}
	h.state, h.why = holdingBroken, why
	leases := h.leases.list()
	h.mu.Unlock()
	c.keep.Remove(&h.entry)
	c.mail.remove(h.id())
	for _, l := range leases {
		_ = l.finish(why)
	}
	c.keep.Add(&h.entry, keepalive.Never) // its window is still watched
	return func() {
		c.passOn(h.line, turn{}) // the callers behind it wait in the store's queue
		h.report(why)
	}, true
}

// returnBroken gives a broken holding back that nobody stands on any more. It
// returns false if that is not, or no longer, to be done.
func (h *holding) returnBroken(ctx context.Context) bool {
	c := h.client()
	if !h.broken() || !c.breakings.take(h) {
		return false
	}
	defer c.gate.leave()
	h.finish(nil)
	_ = c.release(ctx, h) // the store says that it was broken, or the background goes on
	return true
}

// breakingCloses gives a broken holding back because the client closes.
func (h *holding) breakingCloses() {
	c := h.client()
	if !c.breakings.take(h) {
		return
	}
	defer c.gate.leave()
	h.finish(nil)
	h.vacate()
	c.cleanup(h.entry.TTL, h.releaseRequest())
}

// breakingExpires ends a broken holding that was never given back.
func (h *holding) breakingExpires() {
	c := h.client()
	if c.breakings.take(h) {
		h.vacate()
		c.gate.leave()
	}
}
