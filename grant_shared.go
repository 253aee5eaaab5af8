package holdfast

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// Readers of one process share a lease of the store: one of them requests it, and each has a Lease of
// the same grant. Those that wait in the line at the grant get a seat, which keeps the grant until they
// have taken their lease. Newcomers join without a call as long as it is known that no writer waits: the store
// granted the lease at once, and since then a recall would have reached the client. Without recalls they join for
// one quantum of tenure. A newcomer that may not join requests a lease of its own, which is shared from then on;
// the store queues it behind the writers that wait.

// maxShared is how long newcomers may join after the request for the grant was sent, at most a third of the
// TTL: so a recall that was lost delays a writer no longer.
const maxShared = time.Second

// sharing is what a grant needs to be shared.
type sharing struct {
	recallable bool          // a recall reaches the client
	until      time.Duration // when newcomers no longer join
	demanded   atomic.Bool   // the store has recalled it
	closed     atomic.Bool   // newcomers no longer join: a writer wants the resource, or may want it

	// The mutex of the grant guards these.
	seats     int // callers that have not taken their lease yet
	detaching int // calls of Detach under way; newcomers do not join meanwhile
}

// shares reports whether the lease may be shared by several callers of the process.
func (lk *acquirer) shares(weight int) bool {
	return lk.kind == engine.KindRW && weight == 1 && !lk.opts.noTenure && !lk.opts.noRenewal && lk.opts.fallback == FailClosed
}

// recallsShared reports whether a recall would reach the client. Readers do not wait for a subscription: joinShared
// opens it.
func (c *Client) recallsShared() bool { return c.recalls.supported && c.wakeups.live() }

// newSharing returns what a new grant needs to be shared.
func (a *attempt) newSharing(sent, now time.Duration) *sharing {
	if a.recallable && !a.rivalled && !a.unsure {
		return &sharing{recallable: true, until: sent + min(maxShared, a.req.TTL/3)}
	}
	return &sharing{until: now + tenure.Quantum}
}

// share gives a seat to each caller in the line, ends the line, and lets newcomers join. The caller owns the turn
// of the line, if there is one.
func (h *storeGrant) share(l *line) {
	c := h.client()
	h.mu.Lock()
	held := h.state == grantHeld
	if held && l != nil {
		h.shared.seats = c.lines.Share(l, localTurn{grant: h, seat: true})
	}
	h.mu.Unlock()
	if !held {
		c.handOff(l, localTurn{})
		return
	}
	c.shared.open(h)
	if h.ended() { // in between
		c.shared.drop(h)
	}
}

// joinShared returns a lease of the grant that readers of this process share, or nil if a newcomer may not join one.
func (lk *acquirer) joinShared(parent context.Context) *Lease {
	h := lk.c.shared.latest(lk.key())
	if h == nil {
		return nil
	}
	if lk.c.recalls.supported && !lk.c.wakeups.live() {
		lk.c.wakeups.listenSoon() // so that a writer stops those who would join the next grant
	}
	return h.join(parent)
}

func (h *storeGrant) join(parent context.Context) *Lease {
	now, s := h.client().keep.Now(), h.shared
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != grantHeld || s.closed.Load() || now.Mono >= s.until || h.jeopardy.Load() != renewalDone ||
		s.detaching > 0 || h.entry.Window.Left(now) <= min(h.entry.TTL/4, time.Second) {
		return nil
	}
	return h.addLease(parent)
}

// takeSeat returns the lease of a caller with a seat, or nil if the grant has ended meanwhile.
func (h *storeGrant) takeSeat(parent context.Context) *Lease {
	if h.open() {
		h.mu.Lock()
		if h.state == grantHeld {
			defer h.mu.Unlock()
			h.shared.seats--
			return h.addLease(parent)
		}
		h.mu.Unlock()
	}
	h.leaveSeat()
	return nil
}

// leaveSeat gives up a seat. If it was the last use of the grant, it releases that.
func (h *storeGrant) leaveSeat() {
	h.mu.Lock()
	h.shared.seats--
	last := h.unused()
	if last && h.state == grantHeld {
		h.state = grantPassing
	}
	h.mu.Unlock()
	if last {
		h.closeBroken()
		h.client().handOff(nil, localTurn{grant: h})
	}
}

// unused reports whether the grant backs no lease and has no seat. The mutex is held.
func (h *storeGrant) unused() bool {
	return len(h.leases) == 0 && (h.shared == nil || h.shared.seats == 0)
}

// close keeps newcomers from joining.
func (s *sharing) close() {
	if s != nil {
		s.closed.Store(true)
	}
}

// reentered is the since of a lease that its caller re-entered.
const reentered = math.MaxUint32

// leaseStart is the start of a lease for hooks and the history.
type leaseStart struct {
	at    time.Duration
	lease *Lease // nil, unless callers share the grant: then each has one of this grant and token
}

// start returns the start of a lease, and whether hooks and the history count it. If callers share the
// grant, each lease counts that was not re-entered; else the last one, since the start of the turn.
func (h *storeGrant) start(l *Lease) (start leaseStart, counts bool) {
	if h.shared == nil {
		return leaseStart{at: h.since}, true
	}
	return leaseStart{h.since + time.Duration(l.since)*time.Microsecond, l}, l.since != reentered
}

// starts returns the starts of the leases that count, of those that end together.
func (h *storeGrant) starts(leases []*Lease) (all []leaseStart) {
	for _, l := range leases {
		if start, counts := h.start(l); counts {
			all = append(all, start)
		}
		if h.shared == nil {
			break
		}
	}
	return all
}

// sharedGrants are the latest grants of a client that may be joined.
type sharedGrants struct {
	mu  sync.Mutex
	all map[lineKey]*storeGrant
}

func (g *sharedGrants) open(h *storeGrant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = make(map[lineKey]*storeGrant)
	}
	g.all[h.acquirer.key()] = h
}

func (g *sharedGrants) latest(key lineKey) *storeGrant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all[key]
}

// drop removes a grant that has ended.
func (g *sharedGrants) drop(h *storeGrant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if key := h.acquirer.key(); g.all[key] == h {
		delete(g.all, key)
	}
}
