package holdfast

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// storeGrant is the client's state of one lease in the store. It usually backs one
// Lease. With re-entry, or shared by readers, it backs several at once; with tenure it backs several one after
// the other, each with a token of its own.
//
// A client may have 100,000 of them: the size of this struct is a bar of the
// benchmark ("idle").
type storeGrant struct {
	acquirer *acquirer
	held     engine.Held // its ID in the store, and the token of the grant
	entry    keepalive.Entry
	line     *line // nil: no tenure
	slice    tenure.Slice

	mu     sync.Mutex
	why    *LostError    // how it was lost, if it was
	token  uint64        // of the current local turn; between two turns, of the last one
	since  time.Duration // start of the current local turn, if its release is reported
	leases leaseSet
	local  atomic.Pointer[localHold] // of the current turn, with LocalOnly; set under the mutex

	linger *linger  // nil: it is not kept after its last release
	shared *sharing // nil: it is not shared by callers of the process

	first    Lease  // most grants back just one
	weight   int32  // at most MaxCapacity
	reserved uint32 // number of tokens reserved after held.Token; constant
	state    grantState
	demoted  bool // it was a writer's

	// The mutex does not guard these. At this place they fill padding.
	unsure     bool          // copies of the acquire request may still be under way
	unrivalled bool          // the store granted it at once: no other process waited
	jeopardy   atomic.Uint32 // the result of the latest renewal
}

// grantState is the state of a grant's life:
//
//	passing <-> held -> broken -> ended
//	   |          |                 ^
//	   +----------+-----------------+
type grantState uint8

const (
	grantPassing grantState = iota // between two local turns: the goroutine that hands it off owns it
	grantHeld                      // it backs leases
	grantBroken                    // an operator broke it, its leases have ended, it is not released yet
	grantEnded
)

// topToken is the highest token reserved with the grant.
func (h *storeGrant) topToken() uint64 { return h.held.Token + uint64(h.reserved) }

func (h *storeGrant) resource() string { return h.acquirer.name }

func (h *storeGrant) id() string { return h.held.ID }

// client returns the client that the grant belongs to.
func (h *storeGrant) client() *Client { return h.acquirer.c }

func (h *storeGrant) tokens(l *Lease) map[string]uint64 {
	return map[string]uint64{h.acquirer.name: l.token}
}

func (h *storeGrant) deadline() time.Time { return h.client().keep.Closes(&h.entry.Window) }

// left returns the remaining time of the trust window.
func (h *storeGrant) left() time.Duration { return h.entry.Window.Left(h.client().keep.Now()) }

// age returns an upper bound of the time since it was granted or renewed.
func (h *storeGrant) age() time.Duration {
	return h.entry.TTL - keepalive.Margin(h.entry.TTL) - h.left()
}

func (h *storeGrant) fallback() Fallback { return FailClosed }

func (h *storeGrant) covers(c *Client, res engine.Resource) bool {
	return h.client() == c && h.acquirer.resource() == res
}

// begin registers a grant for renewal and for wake-ups. It may be lost from here on:
// immediately, if a break arrived before the attempt had read it. begin returns false if the
// client has adopted the lease already.
func (h *storeGrant) begin(first keepalive.First) bool {
	c := h.client()
	unread, ok := c.wakeups.registerGrant(h)
	if !ok {
		return false
	}
	c.keep.Add(&h.entry, first)
	if h.ended() { // in between
		c.keep.Remove(&h.entry)
	}
	h.wake(unread)
	return true
}

// take returns the lease of the next local turn, after the grant or a hand-off. It
// returns nil if the grant has ended meanwhile.
func (h *storeGrant) take(parent context.Context) *Lease {
	if !h.open() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != grantPassing {
		return nil
	}
	h.state = grantHeld
	h.token++
	return h.addLease(parent)
}

// reenter implements grant. If own has been released, the current turn may be
// another caller's.
func (h *storeGrant) reenter(own *Lease, parent context.Context, lk *acquirer, weight int) (*Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := reentry(h.acquirer, lk, int(h.weight), weight); err != nil {
		return nil, err
	}
	if h.state != grantHeld || !h.leases.has(own) {
		return nil, nil
	}
	l := h.addLease(parent)
	l.since = reentered
	return l, nil
}

// reentry returns the error of a request for weight under a lease of weight had. A reader
// that requests the write lock would wait for its own lease, and so would a writer that
// locks again without re-entry. A reader that reads again might, behind a waiting writer.
func reentry(own, lk *acquirer, had, weight int) error {
	switch {
	case own.kind != lk.kind || own.capacity != lk.capacity:
		return opError("acquire", lk.name, &mismatch{inUse: own.usage(), wanted: lk.usage()})
	case !lk.opts.reentrant || had < weight:
		return &waitError{lk.name, ErrDeadlock, nil}
	}
	return nil
}

func (h *storeGrant) addLease(parent context.Context) *Lease {
	l := &h.first
	if l.grant != nil { // it is in use, or was
		l = new(Lease)
	}
	l.grant, l.token, l.parent = h, h.token, parent
	if h.acquirer.reportsReleases() {
		switch now := h.client().keep.Mono(); {
		case l == &h.first || h.shared == nil && len(h.leases) == 0:
			h.since = now
		case h.shared != nil:
			l.since = uint32((now - h.since).Microseconds()) // seconds at most
		}
	}
	h.leases.add(l)
	return l
}
