package holdfast

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// holding is one lease in the store, as this client has it. Usually one Lease
// stands on it; with re-entry several do at once, with tenure several do one
// after the other, each with a token of its own.
//
// A client may have very many: its size is a bar of the benchmark ("idle").
type holding struct {
	lk    *locker
	held  engine.Held // as the store knows it, with the token of the grant
	entry keepalive.Entry
	line  *line // nil: no tenure
	slice tenure.Slice

	mu     sync.Mutex
	why    *LostError    // how it was lost, if it was
	token  uint64        // of the present turn; while passing, of the one before
	since  time.Duration // when the present turn began, if a hook wants to know
	leases leaseSet
	place  atomic.Pointer[place] // of the turn, with LocalOnly; set under the mutex

	first    Lease  // most holdings have just one
	weight   int32  // at most MaxCapacity
	reserved uint32 // tokens after the one of the grant; not the mutex's
	state    holdingState
	demoted  bool // it was a writer's

	// These are not the mutex's; beside the last two they take no room.
	unsure     bool        // copies of its acquire may be under way
	unrivalled bool        // the store granted it at once: nobody else waited
	jeopardy   atomic.Bool // the latest renewal failed
}

// holdingState moves between passing and held at each turn, perhaps to broken, and
// to ended.
type holdingState uint8

const (
	holdingPassing holdingState = iota // before a turn; whoever passes it has it
	holdingHeld                        // leases stand on it
	holdingBroken                      // it was broken, and those who stand on it are told
	holdingEnded
)

// topToken is the highest token reserved with the grant.
func (h *holding) topToken() uint64 { return h.held.Token + uint64(h.reserved) }

func (h *holding) resource() string { return h.lk.name }

func (h *holding) id() string { return h.held.ID }

// client is whose holding it is.
func (h *holding) client() *Client { return h.lk.c }

func (h *holding) tokens(l *Lease) map[string]uint64 { return map[string]uint64{h.lk.name: l.token} }

func (h *holding) deadline() time.Time { return h.client().keep.Time(h.entry.Window.End()) }

// left is how long its trust window stays open.
func (h *holding) left() time.Duration { return h.entry.Window.Left(h.client().keep.Now()) }

// age is how long ago it was granted or renewed, or more.
func (h *holding) age() time.Duration {
	return h.entry.TTL - keepalive.Margin(h.entry.TTL) - h.left()
}

func (h *holding) fallback() Fallback { return FailClosed }

func (h *holding) covers(c *Client, res engine.Resource) bool {
	return h.client() == c && h.lk.resource() == res
}

// begin registers a complete holding for renewal and for wake-ups. It may be lost
// from here on, at once if it was broken before its attempt had read so.
func (h *holding) begin(first keepalive.First) {
	c := h.client()
	unread := c.mail.hold(h)
	c.keep.Add(&h.entry, first)
	if h.ended() { // in between
		c.keep.Remove(&h.entry)
	}
	h.wake(unread)
}

func (h *holding) ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == holdingEnded
}

// broken tells whether an operator ended it.
func (h *holding) broken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why != nil && h.why.Cause == LostBroken
}

// take makes the lease of the next turn, after the grant or a hand-off. It
// returns nil if the holding ended on the way.
func (h *holding) take(parent context.Context) *Lease {
	if !h.open() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != holdingPassing {
		return nil
	}
	h.state = holdingHeld
	h.token++
	return h.stand(parent)
}

// reenter implements footing. If own has been given back, the turn may be
// another caller's.
func (h *holding) reenter(own *Lease, parent context.Context, lk *locker, weight int) (*Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := reentry(h.lk, lk, int(h.weight), weight); err != nil {
		return nil, err
	}
	if h.state != holdingHeld || !h.leases.has(own) {
		return nil, nil
	}
	return h.stand(parent), nil
}

// reentry tells what is wrong with a request for a weight under a lease of had.
// A reader that wants to write would wait for itself, and so would a writer that
// locks again without re-entry; a reader might, behind a writer.
func reentry(own, lk *locker, had, weight int) error {
	switch {
	case own.kind != lk.kind || own.capacity != lk.capacity:
		return opError("acquire", lk.name, ErrMismatch)
	case !lk.opts.reentrant || had < weight:
		return &waitError{lk.name, ErrDeadlock, nil}
	}
	return nil
}

func (h *holding) stand(parent context.Context) *Lease {
	l := &h.first
	if l.footing != nil { // it is in use, or was
		l = new(Lease)
	}
	l.footing, l.token, l.parent = h, h.token, parent
	if c := h.client(); h.leases.len() == 0 && len(c.hooks.release) > 0 {
		h.since = c.keep.Mono()
	}
	h.leases.add(l)
	return l
}

// Renewal implements keepalive.Keeper.
func (h *holding) Renewal() engine.Renewal {
	return engine.Renewal{Resource: h.lk.resource(), Held: h.held, TTL: h.entry.TTL}
}

// Renewed implements keepalive.Keeper. A lease that lives long enough to be
// renewed is worth a stream of wake-ups, by which a break is told at once.
func (h *holding) Renewed() {
	if h.jeopardy.Load() { // hardly ever, and to read costs less
		h.jeopardy.Store(false)
	}
	h.client().mail.listenSoon()
	for _, hook := range h.client().hooks.renew {
		hook.Renew(Renew{Resource: h.lk.name, Token: h.present(), Left: h.left()})
	}
}

// Jeopardy implements keepalive.Keeper.
func (h *holding) Jeopardy(err error) {
	left := h.left()
	c := h.client()
	if !h.jeopardy.Swap(true) && c.journal.admits(&c.journal.jeopardy) { // the first in a row only
		c.log.Warn("holdfast: a renewal failed; it is tried again until the trust window ends",
			"resource", h.lk.name, "left", left, "error", err)
	}
	for _, hook := range h.client().hooks.renew {
		hook.Renew(Renew{Resource: h.lk.name, Token: h.present(), Left: left, Err: err})
	}
}

// Lost implements keepalive.Keeper.
func (h *holding) Lost(cause *engine.NotHeldError, last error) (rest func()) {
	if cause != nil {
		return h.tell(h.gone(cause))
	}
	return h.tell(h.expired(last))
}

// gone is the loss of a lease that the store does not have any more.
func (h *holding) gone(cause *engine.NotHeldError) *LostError {
	return &LostError{Resource: h.lk.name, Token: h.present(), Cause: lostCause(cause.Cause)}
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

// wake takes a wake-up in: it concerns a holding if the lease was broken.
func (h *holding) wake(w engine.Wakeup) {
	if w.Kind == engine.WakeBroken {
		h.lose(&LostError{Resource: h.lk.name, Token: h.present(), Cause: LostBroken})
	}
}

// open implements footing. It closes a holding whose trust window has passed, so
// that a process that was paused learns it here, before any timer runs.
func (h *holding) open() bool {
	if h.left() > 0 {
		return true
	}
	h.lose(h.expired(h.client().keep.Trouble(&h.entry)))
	return false
}

// lose ends the holding against its holder's will and does all that follows.
func (h *holding) lose(why *LostError) {
	if rest := h.tell(why); rest != nil {
		rest()
	}
}

// tell ends the holding against its holder's will, and tells those who stand on
// it. What it returns is to be run when all are told that lose their leases at
// this moment; it is nil if the holding had ended before.
func (h *holding) tell(why *LostError) (rest func()) {
	if why.Cause == LostBroken {
		if rest, ok := h.breaks(why); ok {
			return rest
		}
	}
	leases, was := h.finish(why)
	switch was {
	case holdingEnded:
		return nil
	case holdingBroken:
		return h.breakingExpires
	}
	for _, l := range leases {
		_ = l.finish(why)
	}
	return func() { h.afterLoss(why, was) }
}

// afterLoss does what a loss makes necessary, once the holder is told.
func (h *holding) afterLoss(why *LostError, was holdingState) {
	h.vacate()
	c := h.client()
	if was == holdingHeld {
		c.passOn(h.line, turn{}) // the turn is free, although the holder is not back yet
	}
	switch {
	case why.Cause == LostBroken && h.lk.kind != engine.KindCond: // nobody stands on it; a signal has ended its lease
		c.cleanup(h.entry.TTL, h.releaseRequest())
	case why.Cause == LostUnreachable || why.Cause == LostExpired || h.unsure:
		// The store may keep it a little longer, or have renewed it just now, or
		// make it again when a late copy of its acquire arrives.
		c.cleanupLater(min(keepalive.Margin(h.entry.TTL), lostGrace), h.entry.TTL, h.releaseRequest())
	}
	if was == holdingHeld { // last, since a logger or a hook may panic
		h.report(why)
	}
}

// report tells the log and the hooks of a loss.
func (h *holding) report(why *LostError) {
	c := h.client()
	if c.journal.admits(&c.journal.lost) {
		c.log.Warn("holdfast: lease lost", "resource", h.lk.name, "cause", why.Cause.String(), "error", why.err)
	}
	for _, hook := range c.hooks.lost {
		hook.Lost(why)
	}
}

// ending implements footing.
func (h *holding) ending() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != nil {
		return h.why
	}
	return ErrReleased
}

// finish moves to the ended state, with a reason if the holding is lost, and
// returns who stood on it, and the state before.
func (h *holding) finish(why *LostError) ([]*Lease, holdingState) {
	h.mu.Lock()
	was, leases := h.state, h.leases.takeAll()
	h.state = holdingEnded
	if was < holdingBroken {
		h.why = why
	}
	h.mu.Unlock()
	if was != holdingEnded {
		h.client().keep.Remove(&h.entry)
		h.client().mail.remove(h.id())
	}
	return leases, was
}

// leave implements footing.
func (h *holding) leave(l *Lease) (last, held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leases.remove(l) {
		return false, false
	}
	if h.leases.len() > 0 {
		return false, true
	}
	if h.state == holdingHeld {
		h.state = holdingPassing
	}
	return true, true
}

// giveBack implements footing.
func (h *holding) giveBack(ctx context.Context, last *Lease) error {
	h.vacate()
	if h.returnBroken(ctx) {
		return h.ending()
	}
	if !h.client().gate.join() {
		return opError("release", h.lk.name, ErrClosed)
	}
	defer h.client().gate.leave()
	if len(h.client().hooks.release) == 0 {
		return h.handOn(ctx)
	}
	since := h.since
	err := h.handOn(ctx)
	for _, hook := range h.client().hooks.release {
		hook.Release(Release{Resource: h.lk.name, Token: last.token, Held: h.client().keep.Mono() - since, Err: err})
	}
	return err
}

// settle gives the present turn its place, or returns false if l has ended.
func (h *holding) settle(l *Lease, p *place) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.leases.has(l) {
		return false
	}
	h.place.Store(p)
	return true
}

// vacate frees the place of a turn that has ended, once its leases were told.
func (h *holding) vacate() {
	if h.place.Load() != nil { // hardly ever, and to read costs less
		h.place.Swap(nil).leave()
	}
}

// handOn passes the holding on inside the process, or yields it to other
// processes, or releases it. It has the turn and passes it on in the deferred
// call, whatever happens.
func (h *holding) handOn(ctx context.Context) error {
	c := h.client()
	if h.line != nil && h.line.Waiting() > 0 && h.mayPass() && c.lines.TryPass(h.line, turn{holding: h}) {
		return nil
	}
	h.finish(nil)
	var next turn
	defer func() { c.passOn(h.line, next) }()
	// A yield does not withdraw the holder ID, which must be if copies of its
	// acquire may be under way.
	if h.line != nil && h.line.Waiting() > 0 && !h.unsure {
		return h.yield(ctx, &next)
	}
	return c.release(ctx, h)
}

// mayPass tells whether the next local waiter may have the holding: within the
// slice, and with enough of the trust window left to be of use.
func (h *holding) mayPass() bool {
	now := h.client().keep.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == holdingPassing && h.token < h.topToken() &&
		h.entry.Window.Left(now) > min(h.entry.TTL/4, time.Second) &&
		h.slice.Take(now.Mono)
}

// yield gives the holding back and queues again for the next local waiter, in
// one step of the store. What that waiter gets is in next at any moment.
func (h *holding) yield(ctx context.Context, next *turn) error {
	c := h.client()
	a := h.lk.newAttempt(int(h.weight), h.line).keep()
	a.req.Yields = h.held
	a.req.Reserve = h.nextReserve()
	if c.mail.live() {
		a.listenFor()
	}
	*next = turn{attempt: a}
	call, cancel := c.releaseContext(ctx)
	defer cancel()
	ans, sent, err := a.ask(call)
	switch {
	case err == nil && ans.Status == engine.Granted:
		if granted := a.held(sent, ans.Token, ans.TTL, keepalive.Usual); granted != nil {
			granted.unrivalled = true
			*next = turn{holding: granted}
		}
	case errors.Is(err, ErrUnavailable):
		err = opError("release", h.lk.name, err)
	case err == nil, errors.Is(err, engine.ErrEnded):
		err = nil
	case errors.Is(err, ErrMismatch):
		// The release was done before the new request was looked at.
		c.mail.remove(a.req.ID)
		*next, err = turn{}, nil
	default:
		c.mail.remove(a.req.ID)
		*next, err = turn{}, opError("release", h.lk.name, err)
		c.cleanup(h.entry.TTL, h.releaseRequest())
	}
	return err
}

// nextReserve is how many tokens the process asks for when it yields. While it is
// alone, each slice that was used up makes the next one longer. It may not take
// more tokens than microseconds pass: they follow the store's clock.
func (h *holding) nextReserve() uint64 {
	if h.unrivalled && h.token == h.topToken() {
		return max(tenure.MaxHandOffs, min(2*uint64(h.reserved), tenure.MaxAlone))
	}
	return tenure.MaxHandOffs
}

func (h *holding) releaseRequest() engine.Release {
	return engine.Release{
		Resource: h.lk.resource(),
		Held:     h.held,
		Withdraw: h.unsure,
	}
}

// releaseContext bounds a call that must be made even if ctx has ended. It ends
// also when Close gives up.
func (c *Client) releaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return until(ctx, c.tasks)
	}
	call, _ := until(context.WithoutCancel(ctx), c.tasks) // without an end of its own
	return context.WithTimeout(call, releaseGrace)
}

// release gives a holding back to the store. If the store does not confirm it in
// time, or the engine panics, the background goes on trying.
func (c *Client) release(ctx context.Context, h *holding) error {
	answered := false
	defer func() {
		if !answered {
			c.cleanup(h.entry.TTL, h.releaseRequest())
		}
	}()
	call, cancel := c.releaseContext(ctx)
	defer cancel()
	start := c.keep.Mono()
	// Not a withdrawal: to that the store says yes also if the lease was gone. It
	// comes afterwards, if copies of the acquire may be under way.
	r := h.releaseRequest()
	r.Withdraw = false
	var slow backoff
	for {
		err := c.engine.Release(call, r)
		if h.unsure && !errors.Is(err, ErrUnavailable) && c.engine.Release(call, h.releaseRequest()) != nil {
			c.cleanup(h.entry.TTL, h.releaseRequest())
		}
		answered = !errors.Is(err, ErrUnavailable)
		var gone *engine.NotHeldError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &gone):
			return &LostError{Resource: h.lk.name, Token: h.present(), Cause: lostCause(gone.Cause)}
		case answered:
			return opError("release", h.lk.name, err)
		}
		// A connection that the store had closed fails at its first use: so a
		// few quick tries, then the background.
		if call.Err() != nil || c.keep.Mono()-start > releaseGrace || slow.n == 3 || !slow.pause(call) {
			return opError("release", h.lk.name, err)
		}
	}
}
