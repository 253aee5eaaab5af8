package holdfast

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// With WithLinger a grant is kept after its last release: it is parked in the line of its process,
// where the next caller takes it. In the store it is a lease like any other, but its ID is
// recallable. A grant that is kept must not pass a waiter, so it is parked only if no other request
// waited when the store granted it, and if every recall since then has reached the client: the
// subscription was live before the request was sent, and a Resync counts as a recall.

const (
	maxLinger = time.Second
	// maxLingering is how many grants a client keeps at a time.
	maxLingering = 1024
	// recallWait is how long a TryLock waits for a lease that was recalled, and recallPause the
	// shortest pause before it looks again.
	recallWait  = 50 * time.Millisecond
	recallPause = 200 * time.Microsecond
)

// linger is what a grant needs to be kept.
type linger struct {
	turn      localTurn     // what is parked
	confirmed time.Duration // when the request was sent whose answer was that nobody waits
	trip      time.Duration // what that request took
	pace      tokenPace
	wanted    atomic.Bool // another process requests the resource, or may do so
	demanded  atomic.Bool // the store has said so

	// The mutex of the grant guards these.
	until time.Duration // when the latest release wants it to end
	timer *time.Timer   // nil: there was no release
	armed bool
	ended bool
}

// lingers reports whether the next grant may be kept.
func (lk *acquirer) lingers() bool {
	return lk.opts.linger > 0 && lk.handsOff() && lk.opts.fallback == FailClosed && lk.c.recalls.allow(lk)
}

// newID returns a new holder ID of the attempt.
func (a *attempt) newID() string {
	id := a.c.newHolderID()
	if a.recallable {
		id += engine.RecallSuffix
	}
	return id
}

// prepareLinger makes sure that a recall can reach the attempt before it is sent.
func (a *attempt) prepareLinger(ctx context.Context) {
	if !a.recallable {
		return
	}
	m := &a.c.wakeups
	if first := a.c.recalls.first(); first && !m.live() {
		_, _ = m.listen(ctx) // without a subscription the grant is not kept
	}
	if !m.live() {
		m.listenSoon()
		a.recallable = false
		return
	}
	a.listenFor()
}

// newLinger returns what a new grant needs to be kept, or nil.
func (a *attempt) newLinger(h *storeGrant, sent time.Duration) *linger {
	if !a.recallable || a.rivalled || a.unsure {
		return nil
	}
	l := &linger{confirmed: sent, trip: a.c.keep.Mono() - sent, pace: a.paced}
	l.pace.grant(h.held.Token, sent)
	l.turn = localTurn{grant: h, parked: true}
	return l
}

// yields makes the attempt release a grant in the step in which it is granted.
func (a *attempt) yields(h *storeGrant) {
	a.req.Yields = h.held
	a.req.Reserve = h.nextReserve()
	if h.linger != nil {
		a.paced = h.linger.pace
	}
}

// replace makes the attempt yield a grant that was kept, if it has not ended. The attempt owns
// its turn.
func (a *attempt) replace(h *storeGrant) {
	if _, was := h.end(nil); was == grantEnded {
		return
	}
	a.known = true // so that withdraw releases the grant, even if nothing was sent
	a.yields(h)
	h.endJeopardy(ErrReleased) // last, since a hook may panic
}

// keepLingering keeps a grant whose last lease was released, and reports whether it did. If so, the
// turn is not the caller's any more.
func (h *storeGrant) keepLingering() bool {
	l := h.linger
	if l == nil || l.wanted.Load() || h.unsure || h.jeopardy.Load() != renewalDone {
		return false
	}
	c := h.client()
	most := min(h.acquirer.opts.linger, h.left()-h.entry.TTL/2)
	if c.life.Err() != nil || most <= 0 || c.lines.Parked() >= maxLingering {
		return false
	}
	if !c.lines.Park(h.line, &l.turn) {
		return false
	}
	h.armLinger(c.keep.Mono() + most)
	if l.wanted.Load() || h.ended() { // in between
		h.endLinger()
	}
	return true
}

// armLinger sets when a grant that is parked is released. The timer is not reset by each
// release: if it fires too early, it is armed anew.
func (h *storeGrant) armLinger(until time.Duration) {
	l := h.linger
	h.mu.Lock()
	defer h.mu.Unlock()
	l.until = until
	if l.armed || l.ended {
		return
	}
	l.armed = true
	in := until - h.client().keep.Mono()
	if l.timer == nil {
		l.timer = time.AfterFunc(in, h.lingerOver)
	} else {
		l.timer.Reset(in)
	}
}

// lingerOver runs when the timer fires.
func (h *storeGrant) lingerOver() {
	h.mu.Lock()
	h.linger.armed = false
	until := h.linger.until
	h.mu.Unlock()
	if until > h.client().keep.Mono() {
		h.armLinger(until)
		return
	}
	h.endLinger()
}

// endLinger releases a grant that is parked. Close waits for it, or releases the grant itself.
func (h *storeGrant) endLinger() {
	c := h.client()
	if !c.gate.JoinCleanup() {
		return
	}
	defer c.gate.Leave()
	h.unpark()
}

// unpark ends the turn of a grant that is parked, and the grant if it has not ended.
func (h *storeGrant) unpark() {
	c := h.client()
	if c.lines.Unpark(h.line, &h.linger.turn) {
		c.handOff(h.line, h.linger.turn) // still parked: whoever came in between checks it
	}
}

// stopLinger frees what a grant that has ended needed to be kept.
func (h *storeGrant) stopLinger() {
	l := h.linger
	if l == nil {
		return
	}
	h.mu.Lock()
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
	h.mu.Unlock()
	h.unpark() // if it ended while it was parked
}

// recall keeps newcomers from joining a grant, and makes one that is parked, or will be, go back
// to the store. Without a demand that the store has reported, recalls may merely have been lost.
func (h *storeGrant) recall(demanded bool) {
	h.shared.close()
	if demanded && h.firstDemand() {
		defer h.client().hooks.recallReceived(h.acquirer, h.present()) // last, since a hook may panic
		if h.linger != nil {
			h.client().recalls.note(h.acquirer)
		}
	}
	l := h.linger
	if l == nil {
		return
	}
	if !l.wanted.Swap(true) {
		h.endLinger()
	}
}

// firstDemand reports whether the store has not recalled the lease before.
func (h *storeGrant) firstDemand() bool {
	switch {
	case h.linger != nil:
		return !h.linger.demanded.Swap(true)
	case h.shared != nil:
		return !h.shared.demanded.Swap(true)
	}
	return false
}

// reusable reports whether the next caller may have a grant that was parked. Once in a third of
// the TTL it may not, so that a recall that was lost delays the others no longer.
func (h *storeGrant) reusable() bool {
	l, now := h.linger, h.client().keep.Now()
	h.mu.Lock()
	token := h.token
	h.mu.Unlock()
	if l.wanted.Load() || h.jeopardy.Load() != renewalDone || token >= h.topToken() ||
		now.Mono-l.confirmed >= h.entry.TTL/3 || h.entry.Window.Left(now) <= h.entry.TTL/2 {
		return false
	}
	ahead := l.pace.ahead(token+1, now.Mono)
	if 0 < ahead && ahead < paceSlack {
		time.Sleep(ahead)
	}
	return ahead < paceSlack
}

// inUse reports whether a caller of the client has a lease of a grant. A grant that is parked, or being
// released, is not in use.
func (m *wakeups) inUse(id string) bool {
	m.mu.Lock()
	h := m.held[id]
	m.mu.Unlock()
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == grantHeld || h.state == grantBroken
}

// awaitRecall returns the pause after which an attempt that does not wait looks again, since the
// lease in its way was recalled, or the error that names the holder.
func (a *attempt) awaitRecall(ctx context.Context, ans engine.Answer, sent time.Time) (time.Duration, error) {
	a.refused = heldError(a.acquirer.name, ans)
	id := ans.Holder.ID
	if a.req.Capacity > 1 || !engine.Recallable(id) || ans.Waiters > 0 || !a.c.recalls.supported {
		return 0, a.refused
	}
	if engine.ClientOf(id) == a.c.info.ID && a.c.wakeups.inUse(id) {
		return 0, a.refused
	}
	if a.recalling.IsZero() {
		a.recalling = sent
	}
	passed := time.Since(a.recalling)
	pause := min(max(4*passed, recallPause), recallWait-passed)
	if end, ok := ctx.Deadline(); passed >= recallWait || ok && time.Until(end) <= pause {
		return 0, a.refused
	}
	return pause, nil
}

// nextReserve returns how many tokens are reserved for the grant that follows one that is kept.
// They last for twenty trips to the store, if the process uses one in a microsecond.
func (l *linger) nextReserve(h *storeGrant) uint64 {
	if h.token < h.topToken() {
		return max(tenure.MaxHandOffs, min(2*(h.token-h.held.Token), uint64(h.reserved)))
	}
	most := min(max(tenure.MaxAlone, 20*l.trip.Microseconds()), 1<<17)
	return max(tenure.MaxHandOffs, min(2*uint64(h.reserved), uint64(most)))
}

// tokenPace keeps the tokens of grants that follow one another behind the store's clock, in
// microseconds, as far as the client can tell: since the first of them no more tokens were used
// than microseconds have passed. The zero value has no grant yet.
type tokenPace struct {
	token uint64
	at    time.Duration
}

// paceSlack is how far tokens may be ahead.
const paceSlack = time.Millisecond

// grant notes a token that the store has given.
func (p *tokenPace) grant(token uint64, at time.Duration) {
	if p.token == 0 || p.ahead(token, at)+paceSlack <= 0 {
		p.token, p.at = token, at
	}
}

// ahead returns how far a token is ahead, beyond the slack.
func (p *tokenPace) ahead(token uint64, at time.Duration) time.Duration {
	return time.Duration(token-p.token)*time.Microsecond - (at - p.at) - paceSlack
}
