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

// attempt is one try to acquire a lease: a request, its place in the store's queue, and
// what is known about both. One goroutine at a time owns it. With tenure, a caller whose
// ctx has ended may hand it off to the next one, with its place.
type attempt struct {
	c        *Client
	acquirer *acquirer
	line     *line // the line whose turn it owns; nil: no tenure
	req      engine.Request

	known         bool          // the store may have a lease or a waiter with the ID
	unsure        bool          // a request was not answered: copies of it may be under way
	queued        bool          // by the latest answer
	rivalled      bool          // it was queued once
	recallable    bool          // its ID is; see linger
	paced         tokenPace     // of the tokens of the grant that it yields
	recalling     time.Time     // when the holder was recalled first; see awaitRecall
	refused       error         // names the holder of a lease that was recalled
	acked         time.Time     // when the last answered request was sent
	last          uint64        // the resource's last token then, if the answer had it
	silent        time.Time     // when the first request since was sent; zero: all were answered
	fallbackAfter time.Duration // time from then until the fallback
	late          int           // grants in a row that arrived after their trust window
	delay         time.Duration // the shortest time that one of them took
	wakes         inbox         // nil until it is registered; one for each holder ID
}

const (
	// pollJitter is how much earlier than PollInterval a waiter may poll, so that
	// waiters that came together do not poll together. A poll is never later.
	pollJitter = engine.PollInterval / 5
	// requestTimeout bounds every request of an attempt but the first. If a poll is not
	// answered, the next one has pollMargin to reach the store before the store drops
	// the waiter. See TestOneUnansweredPollLeavesTheMargin.
	requestTimeout = engine.WaiterLife - engine.PollInterval - pollMargin
	pollMargin     = 500 * time.Millisecond
)

// maxRestarts is how often in a row an attempt restarts with a new ID without a pause.
const maxRestarts = 3

// maxRetries is how often in a row an attempt that does not wait is retried.
const maxRetries = 2

// maxLate is how many grants in a row may arrive too late to be used before the attempt
// fails: the TTL is too short for this store.
const maxLate = 3

func (lk *acquirer) newAttempt(weight int, l *line, wait bool, span SpanRef) *attempt {
	c := lk.c
	a := &attempt{c: c, acquirer: lk, line: l, recallable: l != nil && lk.lingers() || lk.shares(weight) && c.recallsShared()}
	a.req = engine.Request{
		Resource: lk.resource(),
		ID:       a.newID(),
		Client:   &c.info,
		Kind:     lk.kind,
		Capacity: lk.capacity,
		Weight:   weight,
		TTL:      lk.opts.ttl,
		Queue:    wait,
		Reserve:  lk.reserve(l),
		Reason:   joinSpan(lk.opts.reason, span),
		Mark:     lk.mark,
	}
	return a
}

// send sends the request once and records the result, which may be that there is no answer.
func (a *attempt) send(ctx context.Context) (engine.Answer, time.Time, error) {
	whole := ctx
	if limit := a.timeout(ctx); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	wasUnsure := a.unsure
	a.known, a.unsure = true, true // also if the engine panics
	sent := time.Now()
	ans, err := a.c.engine.Acquire(ctx, a.req)
	a.unsure = wasUnsure
	switch {
	case err == nil:
		a.acked, a.last = sent, ans.Last
		a.req.Yields = engine.Held{}
		a.queued = ans.Status == engine.Queued
		a.rivalled = a.rivalled || a.queued
		a.known = ans.Status == engine.Granted || a.queued || a.unsure
	case errors.Is(err, ErrUnavailable): // first: it may wrap any other error as the cause of ctx
		a.unsure = true
	case errors.Is(err, engine.ErrEnded):
		a.req.Yields = engine.Held{}
	case errors.Is(err, ErrDenied), errors.Is(err, ErrMismatch), errors.Is(err, ErrTooHeavy):
	default:
		a.unsure = true
	}
	a.noteAnswer(whole, sent, err) // last, since a hook may panic
	return ans, sent, err
}

// run acquires the lease, as request does, and reports the wait in the store's queue.
func (a *attempt) run(ctx context.Context, spans *callSpans) (h *storeGrant, source Source, err error) {
	q := queueWait{spans: spans}
	defer func() {
		q.end(ctx, a.acquirer, a.req.Weight, err)
		a.joinLocal(err) // last, since a hook may panic
	}()
	h, source, err = a.request(ctx, &q)
	if err != nil && a.refused != nil && ctx.Err() != nil && a.c.life.Err() == nil {
		err = a.refused
	}
	return h, source, err
}

// request sends the request until the lease is granted, ctx or the client ends, or the store
// returns a permanent error. If the resource is busy, it waits in the
// store's queue; without req.Queue it returns a *HeldError. Errors that may pass are
// retried, without req.Queue a few times: the request is idempotent.
func (a *attempt) request(ctx context.Context, q *queueWait) (*storeGrant, Source, error) {
	call, cancel := until(ctx, a.c.life)
	defer cancel()
	source, wait := SourceStore, a.req.Queue
	var trouble error
	var slow backoff
	a.prepareLinger(ctx)
	if wait && (a.queued || a.c.wakeups.live()) {
		a.listenFor()
	}
	for restarts := 0; ; {
		if err := a.c.waitOver(ctx, a.acquirer.name, trouble); err != nil {
			return nil, 0, err
		}
		if err := a.mustFallBack(ctx); err != nil {
			return nil, 0, &waitError{a.acquirer.name, err, trouble}
		}
		ans, sent, err := a.send(call)
		next := time.Duration(0)
		switch {
		case err == nil && ans.Status == engine.Granted:
			if h := a.newGrant(sent, ans.Token, ans.TTL); h != nil {
				return h, source, nil
			}
			if err := a.tooLate(sent); err != nil {
				return nil, 0, err
			}
			continue // the next request renews it
		case err == nil && ans.Status == engine.Marked:
			return nil, 0, a.marked()
		case err == nil && !wait:
			if next, err = a.awaitRecall(ctx, ans, sent); err != nil {
				return nil, 0, err
			}
		case err == nil:
			trouble, slow, restarts, a.late = nil, backoff{}, 0, 0
			q.begin(ctx, a.acquirer, a.req.Weight, WaitStore, ans.Position)
			next = pollIn(ans, sent)
		case errors.Is(err, ErrUnavailable):
			trouble = err
			if !wait && slow.n == maxRetries && a.c.waitOver(ctx, a.acquirer.name, nil) == nil {
				return nil, 0, &waitError{a.acquirer.name, trouble, nil}
			}
			next = a.shorten(ctx, slow.next())
		case errors.Is(err, engine.ErrEnded):
			if err := a.restart(err); err != nil {
				return nil, 0, err
			}
			if restarts++; restarts > maxRestarts {
				if !wait {
					return nil, 0, &waitError{a.acquirer.name, fmt.Errorf("%w: %w", ErrUnavailable, err), nil}
				}
				next = slow.next()
			}
		case errors.Is(err, ErrMismatch):
			return nil, 0, opError("acquire", a.acquirer.name, a.c.explainMismatch(call, a.req.Resource, a.acquirer.usage(), err))
		default:
			return nil, 0, opError("acquire", a.acquirer.name, err)
		}
		again := time.Now().Add(next)
		if a.queued {
			source = SourcePoll
		}
		if a.queued && trouble == nil {
			opened, err := a.listen(ctx)
			if err != nil {
				return nil, 0, opError("acquire", a.acquirer.name, err)
			}
			if opened {
				continue // a wake-up may have been missed before
			}
		}
		h, err := a.wait(ctx, time.Until(again), trouble)
		if h != nil || err != nil {
			return h, SourcePush, err
		}
	}
}

// wait sleeps until there is a reason to send the request again. It accepts a pushed
// grant.
func (a *attempt) wait(ctx context.Context, d time.Duration, trouble error) (*storeGrant, error) {
	select {
	case <-ctx.Done():
	case <-a.c.life.Done():
	case <-time.After(d):
		return nil, nil
	case w := <-a.wakes:
		switch w.Kind {
		case engine.WakeBroken:
			return nil, &waitError{a.acquirer.name, brokenWait(w.Reason), nil}
		case engine.WakeMarked:
			return nil, a.marked()
		case engine.WakeGrant:
			return a.accept(w), nil
		}
		return nil, nil
	}
	return nil, a.c.waitOver(ctx, a.acquirer.name, trouble)
}

// marked ends the attempt because the resource is marked as done: the store has dropped
// it from the queue.
func (a *attempt) marked() error {
	a.queued, a.known = false, a.unsure
	return &waitError{a.acquirer.name, errMarked, nil}
}

// accept accepts a pushed grant. The grant cannot be older than the last request that was
// answered "queued", so the trust window counts from when that was sent. It returns nil,
// and the request is sent again, if too little of the window is left, if the lease needs
// its whole TTL, or if the store had given that token before that answer: then the store
// has lost its data since the grant, and the wake-up is an old one.
func (a *attempt) accept(w engine.Wakeup) *storeGrant {
	if a.acked.IsZero() || a.acquirer.opts.noRenewal || w.Token <= a.last {
		return nil
	}
	left := time.Until(a.acked.Add(w.TTL - keepalive.Margin(w.TTL)))
	if left < w.TTL/3 {
		return nil
	}
	return a.newGrant(a.acked, w.Token, w.TTL)
}

// newGrant returns the storeGrant of the attempt, or nil if its trust window is over. The
// grant may be lost from here on, so it is complete before it is registered, and a lease
// of it must be taken with take. The store may keep the lease for longer than the TTL, as after a
// slow reply if it has a clock that clients only estimate; the trust window is no longer.
func (a *attempt) newGrant(sent time.Time, token uint64, ttl time.Duration) *storeGrant {
	h := &storeGrant{
		acquirer: a.acquirer, line: a.line, weight: int32(a.req.Weight), unsure: a.unsure, unrivalled: !a.rivalled,
		held:     engine.Held{ID: a.req.ID, Token: token},
		token:    token - 1, // the first turn uses the granted token
		reserved: uint32(a.req.Reserve),
	}
	now := a.c.keep.Now()
	switch {
	case a.acquirer.shares(a.req.Weight):
		h.line = nil // the turn goes on at once
		h.shared = a.newSharing(a.c.keep.At(sent).Mono, now.Mono)
	case a.line != nil:
		h.slice = tenure.NewSlice(now.Mono, a.line.Waiting(), int(a.req.Reserve))
		h.linger = a.newLinger(h, a.c.keep.At(sent).Mono)
	}
	h.entry.TTL, h.entry.Keeper = a.req.TTL, h
	ttl = min(ttl, a.req.TTL)
	h.entry.Window.Start(a.c.keep.At(sent), ttl, keepalive.Margin(ttl))
	if h.entry.Window.Left(now) <= 0 {
		return nil
	}
	first := keepalive.Usual
	if a.acquirer.opts.noRenewal {
		first = keepalive.Never
		a.c.wakeups.listenSoon() // no renewal will report a break
	}
	h.begin(first)
	return h
}

// tooLate counts a grant that arrived after its trust window. It returns an error if that
// was one too many.
func (a *attempt) tooLate(sent time.Time) error {
	took := time.Since(sent)
	if a.late++; a.late == 1 || took < a.delay {
		a.delay = took
	}
	if a.late < maxLate {
		return nil
	}
	return &waitError{a.acquirer.name, fmt.Errorf("%w: TTL %v is too short for this store, whose grants took %v or more: use at least %v",
		ErrInvalid, a.req.TTL, a.delay.Round(time.Millisecond), (5 * a.delay).Round(10*time.Millisecond)), nil}
}

// restart gives the attempt a new ID after the store has ended the old one, as it does
// if a grant is not claimed in time. An operator's break is final.
func (a *attempt) restart(err error) error {
	if ended, ok := errors.AsType[*engine.EndedError](err); ok && ended.Cause == engine.CauseBroken {
		return &waitError{a.acquirer.name, brokenWait(ended.Reason), nil}
	}
	a.c.wakeups.remove(a.req.ID)
	a.req.ID = a.newID()
	a.queued, a.unsure, a.acked, a.last = false, false, time.Time{}, 0
	if a.wakes != nil {
		a.wakes = nil // wake-ups for the old ID go to the old inbox
		a.listenFor()
	}
	return nil
}

// listenFor registers the attempt for wake-ups.
func (a *attempt) listenFor() {
	if a.wakes == nil {
		a.wakes = make(inbox, 1)
		a.c.wakeups.register(a.req.ID, a.wakes)
	}
}

// listen opens the stream of wake-ups, once the attempt waits. It returns true if some
// may have been missed until now.
func (a *attempt) listen(ctx context.Context) (opened bool, err error) {
	missed := a.wakes == nil
	a.listenFor()
	opened, err = a.c.wakeups.listen(ctx)
	return opened || missed && err == nil && a.c.wakeups.live(), err
}

// endWait ends an attempt that got no lease, and its turn. If ctx has ended and a local
// caller waits, that one gets the attempt with its place in the store's queue; otherwise
// the attempt is withdrawn, and next is handed off.
func (a *attempt) endWait(ctx context.Context, next localTurn) {
	c := a.c
	if a.line != nil && a.req.Queue && ctx.Err() != nil && c.lines.TryHandOff(a.line, localTurn{attempt: a}) {
		return
	}
	defer c.handOff(a.line, next)
	a.withdraw()
}

// withdraw withdraws the attempt from the store. It waits callGrace for the answer, so that
// usually nothing is left when the caller returns; after that it continues in the background.
func (a *attempt) withdraw() {
	a.c.wakeups.remove(a.req.ID)
	if !a.known {
		return
	}
	releases := []engine.Release{{
		Resource: a.req.Resource,
		Held:     engine.Held{ID: a.req.ID},
		Withdraw: a.unsure,
	}}
	if a.req.Yields.ID != "" { // that release was never confirmed
		releases = append(releases, engine.Release{Resource: a.req.Resource, Held: a.req.Yields})
	}
	done := a.c.queueRelease(a.req.TTL, releases...)
	if a.acquirer.opts.fallback == FailClosed || a.silent.IsZero() {
		await(done, callGrace) // with a fallback the caller has waited long enough
	}
}

// await waits for done, at most for the given time.
func await(done <-chan struct{}, most time.Duration) {
	select {
	case <-done:
	case <-time.After(most):
	}
}

// pollIn returns when a waiter polls next: PollInterval after its last request was sent,
// or, near the front, shortly after the first of the current leases expires, one waiter
// after the other.
func pollIn(ans engine.Answer, sent time.Time) time.Duration {
	d := engine.PollInterval - mathrand.N(pollJitter) - time.Since(sent)
	if ans.Next > 0 {
		look := ans.Next + time.Millisecond + time.Duration(ans.Position)*10*time.Millisecond
		d = min(d, look)
	}
	return d
}

// heldError returns the error that names the holder.
func heldError(name string, ans engine.Answer) error {
	h := ans.Holder
	reason, span := splitSpan(h.Reason)
	return &HeldError{
		Resource: name,
		HolderID: h.ID, Name: h.Client.Name, Host: h.Client.Host, PID: h.Client.PID,
		Reason: reason, Since: h.Since, TTL: h.TTL, Waiters: ans.Waiters, span: span,
	}
}
