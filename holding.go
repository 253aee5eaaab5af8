package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// holding is one lease in the store, as this client has it. Usually one Lease
// stands on it; with re-entry several do at once, with tenure several do one
// after the other, each with a token of its own.
type holding struct {
	c      *Client
	lk     *locker
	weight int
	unsure bool // copies of its acquire may be under way
	entry  keepalive.Entry
	line   *line // nil: no tenure
	slice  tenure.Slice

	topToken uint64 // highest token reserved with the grant

	mu     sync.Mutex
	state  holdingState
	token  uint64 // of the present turn
	since  time.Time
	leases []*Lease
}

// holdingState moves from held to ended, by way of passing at each hand-off.
type holdingState uint8

const (
	holdingHeld    holdingState = iota // leases stand on it
	holdingPassing                     // between two turns; whoever passes it has it
	holdingEnded
)

// id is the holder ID.
func (h *holding) id() string { return h.entry.Renewal.ID }

// begin makes the first lease of a fresh holding.
func (h *holding) begin(parent context.Context) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stand(parent)
}

// take makes the lease of the next turn after a hand-off. It returns nil if the
// holding ended on the way.
func (h *holding) take(parent context.Context) *Lease {
	now := time.Now()
	h.mu.Lock()
	if h.state != holdingPassing {
		h.mu.Unlock()
		return nil
	}
	if h.entry.Window.Left(now) <= 0 {
		h.mu.Unlock()
		h.lose(h.expired(h.c.keep.Trouble(&h.entry)))
		return nil
	}
	defer h.mu.Unlock()
	h.state = holdingHeld
	h.token++
	return h.stand(parent)
}

// reenter makes a further lease of the same turn, or nil if it has ended.
func (h *holding) reenter(parent context.Context) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != holdingHeld {
		return nil
	}
	return h.stand(parent)
}

func (h *holding) stand(parent context.Context) *Lease {
	l := &Lease{holding: h, token: h.token, parent: parent}
	if len(h.leases) == 0 {
		h.since = time.Now()
	}
	h.leases = append(h.leases, l)
	return l
}

// Renewed implements keepalive.Keeper. A lease that lives long enough to be
// renewed is worth a stream of wake-ups, by which a break is told at once.
func (h *holding) Renewed() {
	for _, hook := range h.c.hooks.renew {
		hook.Renew(Renew{Resource: h.lk.name, Token: h.present(), Left: h.entry.Window.Left(time.Now())})
	}
	h.c.mail.listenSoon()
}

// Jeopardy implements keepalive.Keeper.
func (h *holding) Jeopardy(err error) {
	left := h.entry.Window.Left(time.Now())
	h.c.log.Warn("holdfast: a renewal failed; it is tried again until the trust window ends",
		"resource", h.lk.name, "left", left, "error", err)
	for _, hook := range h.c.hooks.renew {
		hook.Renew(Renew{Resource: h.lk.name, Token: h.present(), Left: left, Err: err})
	}
}

// Lost implements keepalive.Keeper.
func (h *holding) Lost(cause *engine.NotHeldError, last error) {
	if cause != nil {
		h.lose(&LostError{Resource: h.lk.name, Token: h.present(), Cause: lostCause(cause.Cause)})
		return
	}
	h.lose(h.expired(last))
}

// expired is the loss of a trust window that closed.
func (h *holding) expired(last error) *LostError {
	e := &LostError{Resource: h.lk.name, Token: h.present(), Cause: LostExpired}
	if last != nil {
		e.Cause, e.err = LostUnreachable, last
	}
	return e
}

func (h *holding) present() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.token
}

// wake implements party.
func (h *holding) wake(w engine.Wakeup) {
	if w.Kind == engine.WakeBroken {
		h.lose(&LostError{Resource: h.lk.name, Token: h.present(), Cause: LostBroken})
	}
}

// open tells whether the holder may still act. It closes a holding whose trust
// window has passed, so that a process that was paused learns it here, before
// any timer runs.
func (h *holding) open() bool {
	if h.entry.Window.Left(time.Now()) > 0 {
		return true
	}
	h.lose(h.expired(h.c.keep.Trouble(&h.entry)))
	return false
}

// lose ends the holding against its holder's will and tells everybody.
func (h *holding) lose(why *LostError) {
	leases, was := h.finish()
	if was == holdingEnded {
		return
	}
	for _, l := range leases {
		l.finish(why)
	}
	h.c.log.Warn("holdfast: lease lost", "resource", h.lk.name, "cause", why.Cause.String(), "error", why.err)
	for _, hook := range h.c.hooks.lost {
		hook.Lost(why)
	}
	if was == holdingHeld && h.line != nil {
		h.c.passOn(h.line, turn{}) // the turn is free, although the holder is not back yet
	}
	if why.Cause == LostUnreachable || why.Cause == LostExpired {
		// The store may keep it a little longer, or have renewed it just now.
		h.c.cleanup(h.entry.Renewal.TTL, h.releaseRequest())
	}
}

// finish moves to the ended state and returns who stood on the holding, and the
// state before.
func (h *holding) finish() ([]*Lease, holdingState) {
	h.mu.Lock()
	was, leases := h.state, h.leases
	h.state, h.leases = holdingEnded, nil
	h.mu.Unlock()
	if was != holdingEnded {
		h.c.keep.Remove(&h.entry)
		h.c.mail.remove(h.id())
	}
	return leases, was
}

// leave takes one lease off. It returns true with the last one: the caller must
// then give the holding back.
func (h *holding) leave(l *Lease) (last, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != holdingHeld {
		return false, false
	}
	for i, other := range h.leases {
		if other == l {
			h.leases = append(h.leases[:i], h.leases[i+1:]...)
			break
		}
	}
	if len(h.leases) > 0 {
		return false, true
	}
	h.state = holdingPassing
	return true, true
}

// giveBack passes the holding on inside the process, or yields it to other
// processes, or releases it.
func (h *holding) giveBack(ctx context.Context) error {
	c := h.c
	if h.line != nil {
		if h.mayPass() && c.lines.TryPass(h.line, turn{holding: h}) {
			return nil
		}
		if c.lines.Waiting(h.line) {
			return h.yield(ctx)
		}
	}
	h.finish()
	err := c.release(ctx, h)
	if h.line != nil {
		c.passOn(h.line, turn{})
	}
	return err
}

// mayPass tells whether the next local waiter may have the holding: within the
// slice, and with enough of the trust window left to be of use.
func (h *holding) mayPass() bool {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == holdingPassing && h.token < h.topToken &&
		h.entry.Window.Left(now) > min(h.entry.Renewal.TTL/4, time.Second) &&
		h.slice.Take(now)
}

// yield gives the holding back and queues again for the next local waiter, in
// one step of the store.
func (h *holding) yield(ctx context.Context) error {
	c := h.c
	h.finish()
	a := h.lk.newAttempt(h.weight)
	a.req.Yields = h.entry.Renewal.Held
	if c.mail.live() {
		a.listenFor()
	}
	call, cancel := releaseContext(ctx)
	ans, sent, err := a.ask(call)
	cancel()
	next := turn{attempt: a}
	switch {
	case err == nil && ans.Status == engine.Granted:
		if granted := a.held(sent, ans.Token, ans.TTL, keepalive.Usual); granted != nil {
			granted.line, granted.slice = h.line, tenure.NewSlice(time.Now())
			granted.state = holdingPassing
			granted.token-- // the next turn begins with the granted token itself
			next = turn{holding: granted}
		}
	case err == nil, errors.Is(err, engine.ErrEnded):
		err = nil
	case errors.Is(err, ErrUnavailable):
		err = opError("release", h.lk.name, err)
	default:
		next = turn{}
		err = opError("release", h.lk.name, err)
	}
	c.passOn(h.line, next)
	return err
}

// shut ends the holding because the client closes.
func (h *holding) shut(ctx context.Context) error {
	leases, was := h.finish()
	if was == holdingEnded {
		return nil
	}
	for _, l := range leases {
		l.finish(ErrReleased)
	}
	err := h.c.release(ctx, h)
	if was == holdingHeld && h.line != nil {
		h.c.passOn(h.line, turn{})
	}
	return err
}

func (h *holding) releaseRequest() engine.Release {
	return engine.Release{
		Resource: h.entry.Renewal.Resource,
		Held:     h.entry.Renewal.Held,
		Withdraw: h.unsure,
	}
}

// releaseContext bounds a call that must be made even if ctx has ended.
func releaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), releaseGrace)
}

// release gives a holding back to the store. If the store does not confirm it in
// time, the background goes on trying.
func (c *Client) release(ctx context.Context, h *holding) error {
	call, cancel := releaseContext(ctx)
	defer cancel()
	start := time.Now()
	var slow backoff
	for {
		err := c.engine.Release(call, h.releaseRequest())
		var gone *engine.NotHeldError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &gone):
			return &LostError{Resource: h.lk.name, Token: h.present(), Cause: lostCause(gone.Cause)}
		case !errors.Is(err, ErrUnavailable):
			return opError("release", h.lk.name, err)
		}
		// A connection that the store had closed fails at its first use: so a
		// few quick tries, then the background.
		if call.Err() != nil || time.Since(start) > releaseGrace || slow.n == 3 || !slow.pause(call) {
			c.cleanup(h.entry.Renewal.TTL, h.releaseRequest())
			return opError("release", h.lk.name, err)
		}
	}
}
