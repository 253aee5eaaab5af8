package holdfast

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// A resource that was recalled is not kept for recallOff, and for twice as long after each
	// further recall, up to recallOffMax. It is forgotten recallOffMax after that.
	recallOff    = 30 * time.Second
	recallOffMax = 10 * time.Minute
	// recallsMax is of how many resources a client remembers it.
	recallsMax = 8192
)

// recalls are the resources whose leases are not kept, since other processes want them as well.
type recalls struct {
	supported bool // the engine recalls leases
	now       func() time.Duration

	tried atomic.Bool // to subscribe, before the first grant that may be kept

	mu      sync.Mutex
	off     map[lineKey]recallSpan
	sweepAt int // size of off at which old ones are removed
}

type recallSpan struct {
	until, span time.Duration
}

func (r *recalls) open(c *Client) {
	recaller, ok := c.engine.(engine.Recaller)
	r.supported, r.now = ok && recaller.Recalls(), c.keep.Mono
}

// first reports whether this is the first attempt whose grant may be kept.
func (r *recalls) first() bool { return !r.tried.Swap(true) }

// allow reports whether a lease of the resource may be kept.
func (r *recalls) allow(lk *acquirer) bool {
	if !r.supported {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.off[lk.key()].until <= r.now()
}

// note notes a recall.
func (r *recalls) note(lk *acquirer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, key := r.now(), lk.key()
	span := recallOff
	if last, ok := r.off[key]; ok && now < last.until+recallOffMax {
		span = min(2*last.span, recallOffMax)
	}
	if r.off == nil {
		r.off = make(map[lineKey]recallSpan)
	}
	r.off[key] = recallSpan{now + span, span}
	if len(r.off) < r.sweepAt {
		return
	}
	for key, s := range r.off {
		if s.until+recallOffMax <= now {
			delete(r.off, key)
		}
	}
	if len(r.off) >= recallsMax {
		clear(r.off)
	}
	r.sweepAt = min(2*len(r.off)+64, recallsMax)
}
