package holdfast

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// attempt is one try to get a lease: a request, its place in the store's queue,
// and what is known about both. One goroutine at a time has it; with tenure it
// may pass from a caller that gave up to the next one, place and all.
type attempt struct {
	c    *Client
	lk   *locker
	line *line // whose turn it has; nil: no tenure
	req  engine.Request

	known  bool          // the store may know the ID
	unsure bool          // a request went unanswered: copies may be under way
	queued bool          // the store said so
	acked  time.Time     // when the last answered request was sent
	last   uint64        // the last token then, if the store told it
	silent time.Time     // when the first request since was sent; zero: all are answered
	bears  time.Duration // how long a fallback is put off from then on
	late   int           // grants in a row whose trust windows were over when they came
	delay  time.Duration // the shortest time that one of them took
	wakes  inbox         // nil until it listens; one for each holder ID
}

const (
	// pollJitter is how much before PollInterval is over a waiter asks again at
	// most, so that those who came together do not stay together. It is never later.
	pollJitter = engine.PollInterval / 5
	// askPatience bounds every request of an attempt but the first, which costs
	// nothing extra: a waiter whose request goes unanswered asks again, and that
	// request has pollMargin to reach the store before the place in the queue is
	// dropped. See TestOneUnansweredPollLeavesTheMargin.
	askPatience = engine.WaiterLife - engine.PollInterval - pollMargin
	pollMargin  = 500 * time.Millisecond
)

// maxRestarts is how often in a row an attempt takes a fresh ID at once.
const maxRestarts = 3

// maxLate is how many grants in a row may come too late to be used, before the
// attempt ends: waiting does not make a store quicker.
const maxLate = 3

// errBrokenWait ends a wait that an operator broke.
var errBrokenWait = errors.New("the wait was broken by an operator")

func (lk *locker) newAttempt(weight int, l *line) attempt {
	c := lk.c
	return attempt{c: c, lk: lk, line: l, req: engine.Request{
		Resource: lk.resource(),
		ID:       c.newHolderID(),
		Client:   &c.info,
		Kind:     lk.kind,
		Capacity: lk.capacity,
		Weight:   weight,
		TTL:      lk.opts.ttl,
		Queue:    true,
		Reserve:  lk.reserve(l),
		Reason:   lk.opts.reason,
		Mark:     lk.mark,
	}}
}

// keep puts the attempt where it outlives its caller. Few do, and to make each
// there would cost every lock an allocation.
func (a attempt) keep() *attempt { return &a }

// ask sends the request once.
func (a *attempt) ask(ctx context.Context) (engine.Answer, time.Time, error) {
	whole := ctx
	if limit := a.limit(ctx); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	wasUnsure := a.unsure
	a.known, a.unsure = true, true // also if the engine panics
	sent := time.Now()
	ans, err := a.c.engine.Acquire(ctx, a.req)
	a.unsure = wasUnsure
	a.heard(whole, sent, err)
	switch {
	case err == nil:
		a.acked, a.last = sent, ans.Last
		a.req.Yields = engine.Held{}
		a.queued = ans.Status == engine.Queued
		a.known = ans.Status == engine.Granted || a.queued || a.unsure
	case errors.Is(err, ErrUnavailable): // first: it may carry any other error as the cause of ctx
		a.unsure = true
	case errors.Is(err, engine.ErrEnded):
		a.req.Yields = engine.Held{}
	case errors.Is(err, ErrDenied), errors.Is(err, ErrMismatch), errors.Is(err, ErrTooHeavy):
	default:
		a.unsure = true
	}
	return ans, sent, err
}

// run waits until the lease is held, ctx ends, the client closes, or the store
// gives an answer that waiting cannot mend. Trouble that may pass is ridden out.
// Requests go by call, which ends with ctx and with the client.
func (a *attempt) run(ctx, call context.Context) (*holding, Source, error) {
	source, alone := FromStore, !a.queued
	var trouble error
	var slow backoff
	if a.queued || a.c.mail.live() {
		a.listenFor()
	}
	for restarts := 0; ; {
		if err := a.over(ctx, trouble); err != nil {
			return nil, 0, err
		}
		if err := a.forsaken(ctx); err != nil {
			return nil, 0, &waitError{a.lk.name, err, trouble}
		}
		ans, sent, err := a.ask(call)
		next := time.Duration(0)
		switch {
		case err == nil && ans.Status == engine.Granted:
			if h := a.held(sent, ans.Token, ans.TTL, keepalive.Usual); h != nil {
				h.unrivalled = alone && source == FromStore
				return h, source, nil
			}
			if err := a.tooLate(sent); err != nil {
				return nil, 0, err
			}
			continue // ask again, which renews it
		case err == nil && ans.Status == engine.Marked:
			return nil, 0, a.marked()
		case err == nil:
			trouble, slow, restarts, a.late = nil, backoff{}, 0, 0
			next = pollIn(ans, sent)
		case errors.Is(err, ErrUnavailable):
			trouble = err
			next = a.within(ctx, slow.next())
		case errors.Is(err, engine.ErrEnded):
			if err := a.restart(err); err != nil {
				return nil, 0, err
			}
			if restarts++; restarts > maxRestarts {
				next = slow.next()
			}
		default:
			return nil, 0, opError("acquire", a.lk.name, err)
		}
		again := time.Now().Add(next)
		if a.queued {
			source = FromPoll
		}
		if a.queued && trouble == nil {
			opened, err := a.listen(ctx)
			if err != nil {
				return nil, 0, opError("acquire", a.lk.name, err)
			}
			if opened {
				continue // subscribed: look again
			}
		}
		h, err := a.wait(ctx, time.Until(again), trouble)
		if h != nil || err != nil {
			return h, FromPush, err
		}
	}
}

// wait sleeps until there is a reason to ask again. A grant that was pushed is
// accepted here.
func (a *attempt) wait(ctx context.Context, d time.Duration, trouble error) (*holding, error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return nil, a.over(ctx, trouble)
	case <-a.c.life.Done():
		return nil, a.over(ctx, trouble)
	case <-t.C:
		return nil, nil
	case w := <-a.wakes:
		switch w.Kind {
		case engine.WakeBroken:
			return nil, &waitError{a.lk.name, errBrokenWait, nil}
		case engine.WakeMarked:
			return nil, a.marked()
		case engine.WakeGrant:
			return a.accept(w), nil
		}
		return nil, nil
	}
}

// marked ends the attempt because the resource is marked as done. The store has
// sent it away.
func (a *attempt) marked() error {
	a.queued, a.known = false, a.unsure
	return &waitError{a.lk.name, errMarked, nil}
}

// over tells why nobody waits for the attempt any more, or nil.
func (a *attempt) over(ctx context.Context, trouble error) error {
	if ctx.Err() != nil {
		return &waitError{a.lk.name, context.Cause(ctx), trouble}
	}
	if a.c.life.Err() != nil {
		return &waitError{a.lk.name, ErrClosed, nil}
	}
	return nil
}

// accept takes a pushed grant. It cannot be older than the last request that was
// answered "queued", so the trust window counts from when that was sent. If too
// little is left of it, or the whole TTL is wanted, the store is asked first; and
// also if the store had given that token before it answered: then it has lost its
// data since the grant, and the wake-up was held up on its way.
func (a *attempt) accept(w engine.Wakeup) *holding {
	if a.acked.IsZero() || a.lk.opts.noRenewal || w.Token <= a.last {
		return nil
	}
	left := time.Until(a.acked.Add(w.TTL - keepalive.Margin(w.TTL)))
	if left < w.TTL/3 {
		return nil
	}
	first := keepalive.Usual
	if w.TTL < a.req.TTL || left < a.req.TTL*2/3 {
		first = keepalive.Soon
	}
	return a.held(a.acked, w.Token, w.TTL, first)
}

// held makes the holding of a grant, unless its trust window has closed already.
// From here on it can be lost at any moment, so it is complete before others see
// it, and who wants to stand on it has to take it.
func (a *attempt) held(sent time.Time, token uint64, ttl time.Duration, first keepalive.First) *holding {
	h := &holding{
		lk: a.lk, line: a.line, weight: int32(a.req.Weight), unsure: a.unsure,
		held:     engine.Held{ID: a.req.ID, Token: token},
		token:    token - 1, // the first turn takes the granted token itself
		reserved: uint32(a.req.Reserve),
	}
	now := a.c.keep.Now()
	if a.line != nil {
		h.slice = tenure.NewSlice(now.Mono, a.line.Waiting(), int(a.req.Reserve))
	}
	h.entry.TTL, h.entry.Keeper = a.req.TTL, h
	h.entry.Window.Start(a.c.keep.At(sent), ttl, keepalive.Margin(ttl))
	if h.entry.Window.Left(now) <= 0 {
		return nil
	}
	if a.lk.opts.noRenewal {
		first = keepalive.Never
		a.c.mail.listenSoon() // no renewal will tell of a break
	}
	h.begin(first)
	return h
}

// tooLate counts a grant whose trust window was over when it came. It returns an
// error if that was one too many.
func (a *attempt) tooLate(sent time.Time) error {
	took := time.Since(sent)
	if a.late++; a.late == 1 || took < a.delay {
		a.delay = took
	}
	if a.late < maxLate {
		return nil
	}
	return &waitError{a.lk.name, fmt.Errorf("%w: TTL %v is too short for this store, whose grants took %v or more: use at least %v",
		ErrOption, a.req.TTL, a.delay.Round(time.Millisecond), (5 * a.delay).Round(10*time.Millisecond)), nil}
}

// restart gives the attempt a fresh ID after the store ended the old one, as it
// does when a grant was not claimed in time. An operator's break is final.
func (a *attempt) restart(err error) error {
	var ended *engine.EndedError
	if errors.As(err, &ended) && ended.Cause == engine.CauseBroken {
		return &waitError{a.lk.name, errBrokenWait, nil}
	}
	a.c.mail.remove(a.req.ID)
	a.req.ID = a.c.newHolderID()
	a.queued, a.unsure, a.acked, a.last = false, false, time.Time{}, 0
	if a.wakes != nil {
		a.wakes = nil // what still comes for the old ID goes to the old inbox
		a.listenFor()
	}
	return nil
}

// listenFor registers the attempt for wake-ups.
func (a *attempt) listenFor() {
	if a.wakes == nil {
		a.wakes = make(inbox, 1)
		a.c.mail.expect(a.req.ID, a.wakes)
	}
}

// listen makes sure that wake-ups come in, once the attempt waits. It returns
// true if some may have been missed until now.
func (a *attempt) listen(ctx context.Context) (opened bool, err error) {
	missed := a.wakes == nil
	a.listenFor()
	opened, err = a.c.mail.listen(ctx)
	return opened || missed && err == nil && a.c.mail.live(), err
}

// end passes on the turn of an attempt that got no lease. If the caller has gone,
// its place in the store's queue goes to the next local caller; else the attempt
// is taken out of the store.
func (a *attempt) end(ctx context.Context) {
	c := a.c
	if a.line != nil && a.req.Queue && ctx.Err() != nil && c.lines.TryPass(a.line, turn{attempt: a.keep()}) {
		return
	}
	defer c.passOn(a.line, turn{})
	a.abandon()
}

// abandon takes the attempt out of the store. It waits a little for that, so
// that usually nothing is left when the caller hears of it, and leaves the rest
// to the background.
func (a *attempt) abandon() {
	a.c.mail.remove(a.req.ID)
	if !a.known {
		return
	}
	releases := []engine.Release{{
		Resource: a.req.Resource,
		Held:     engine.Held{ID: a.req.ID},
		Withdraw: a.unsure,
	}}
	if a.req.Yields.ID != "" { // its release was never confirmed
		releases = append(releases, engine.Release{Resource: a.req.Resource, Held: a.req.Yields})
	}
	done := a.c.cleanup(a.req.TTL, releases...)
	if a.lk.opts.fallback == FailClosed || a.silent.IsZero() {
		await(done, callGrace) // else the caller has waited long enough
	}
}

// await waits for done, but not for long.
func await(done <-chan struct{}, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// pollIn says when a waiter asks again: a second after it last asked, and those
// near the front also when the first of the present leases ends, one after the
// other. The answer may have been under way for a while: that is not added.
func pollIn(ans engine.Answer, sent time.Time) time.Duration {
	d := engine.PollInterval - mathrand.N(pollJitter) - time.Since(sent)
	if ans.Next > 0 {
		look := ans.Next + time.Millisecond + time.Duration(ans.Position)*10*time.Millisecond
		d = min(d, look)
	}
	return d
}

// try asks for the lease without waiting for it. A lost connection is tried
// again a few times, since the outcome is unknown and asking is idempotent.
func (a *attempt) try(ctx, call context.Context) (*holding, error) {
	const tries = 3
	var slow backoff
	for n := 1; ; n++ {
		if err := a.forsaken(ctx); err != nil {
			return nil, &waitError{a.lk.name, err, nil}
		}
		ans, sent, err := a.ask(call)
		switch {
		case err == nil && ans.Status == engine.Granted:
			if h := a.held(sent, ans.Token, ans.TTL, keepalive.Usual); h != nil {
				return h, nil
			}
			if err := a.tooLate(sent); err != nil {
				return nil, err
			}
			continue // at once, while the lease lives
		case err == nil && ans.Status == engine.Marked:
			return nil, a.marked()
		case err == nil:
			return nil, heldError(a.lk.name, ans)
		case errors.Is(err, engine.ErrEnded) && !errors.Is(err, ErrUnavailable):
			if broken := a.restart(err); broken != nil {
				return nil, broken
			}
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		switch over := a.over(ctx, err); {
		case over != nil:
			return nil, over
		case !errors.Is(err, ErrUnavailable):
			return nil, opError("acquire", a.lk.name, err)
		case n == tries:
			return nil, &waitError{a.lk.name, err, nil}
		case !slow.pause(call):
			return nil, a.over(ctx, err)
		}
	}
}

// heldError tells who is in the way.
func heldError(name string, ans engine.Answer) error {
	h := ans.Holder
	return &HeldError{
		Resource: name,
		HolderID: h.ID, Name: h.Client.Name, Host: h.Client.Host, PID: h.Client.PID,
		Reason: h.Reason, Since: h.Since, TTL: h.TTL, Waiters: ans.Waiters,
	}
}
