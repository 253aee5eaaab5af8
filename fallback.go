package holdfast

import (
	"context"
	"errors"
	"time"
)

// A Fallback is what a lock does while the store is unavailable, that is,
// cannot be reached or does not respond. A lock never falls back because a
// resource is held, the store refuses a request, or ctx ends.
type Fallback uint8

// The fallbacks.
const (
	// FailClosed: no lease without the store. Lock waits for the store, and
	// TryLock returns ErrUnavailable.
	FailClosed Fallback = iota
	// FailOpen: the work continues unlocked, as if the lease had been granted.
	FailOpen
	// LocalOnly: the lease excludes only the other callers of this client,
	// first come, first served.
	LocalOnly
)

func (p Fallback) String() string {
	switch p {
	case FailClosed:
		return "fail closed"
	case FailOpen:
		return "fail open"
	case LocalOnly:
		return "local only"
	}
	return "fallback?"
}

// FallbackTimeout is how long a request may remain unanswered before a lock
// with a fallback falls back, so that a shorter failover or restart has no
// effect. If ctx has a nearer deadline, it is half of the remaining time, but
// at least 250 ms; with less than 500 ms left, ctx ends before the lock falls
// back. TryLock falls back earlier if three attempts cannot reach the store.
// Once a client's requests have been unanswered for this time, its later calls
// fall back at once, until the store responds again. Callers that wait in the
// process for the same lock fall back together: the time counts from the request
// that was unanswered first.
const FallbackTimeout = time.Second

// minFallbackTimeout is the minimum time without an answer before a fallback.
const minFallbackTimeout = 250 * time.Millisecond

// Fallback reports how the lease was granted: FailClosed if by the store, so
// that it excludes others everywhere; FailOpen or LocalOnly if without it. A
// lease granted without the store has the token 0, which every fence refuses.
// It is not lost when the store comes back, even if others hold the resource
// then. For a Multi it is the fallback of any resource that fell back.
func (l *Lease) Fallback() Fallback { return l.grant.fallback() }

// acquireOrFallBack requests a lease from the store, and falls back if the store is away.
func (lk *acquirer) acquireOrFallBack(ctx context.Context, weight int, queue bool, spans *callSpans) (*Lease, Source, error) {
	c := lk.c
	for {
		var granted *Lease
		var local *localHold
		source := SourceFallback
		if !c.breaker.open(c.resource(lk.name)) {
			l, from, err := lk.acquireStore(ctx, weight, queue, spans)
			if silent := silentOf(err); silent != nil {
				local = silent.local
			}
			switch {
			case err == nil:
				granted, source = l, from
			case !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || c.life.Err() != nil:
				local.release()
				return nil, 0, err
			}
		}
		l, err := lk.admitLocal(ctx, weight, queue, granted, local)
		if err != nil {
			return nil, 0, err
		}
		if l != nil {
			return l, source, nil
		}
	}
}

// admitLocal returns the lease that the store granted or, if granted is nil, one without
// the store. With LocalOnly it takes the local lock first in both cases. It returns nil if
// it had to wait for the local lock and the store must be tried again. p is the local hold
// that the caller already has, or nil.
func (lk *acquirer) admitLocal(ctx context.Context, weight int, queue bool, granted *Lease, p *localHold) (*Lease, error) {
	switch {
	case lk.opts.fallback == FailOpen && granted != nil:
		return granted, nil
	case lk.opts.fallback == FailOpen:
		return newFallbackGrant(lk, lk.c.newHolderID(), weight, nil).take(ctx)
	case granted != nil:
		return lk.admitGranted(ctx, weight, queue, granted)
	}
	var err error
	if p == nil {
		p, err = lk.c.local.join(lk, lk.c.newHolderID(), weight, queue)
	}
	if err != nil {
		return nil, err
	}
	if err := p.wait(ctx, nil); err != nil {
		return nil, err
	}
	if p.waited() && !lk.c.breaker.open(lk.c.resource(lk.name)) && p.mayAnswer() {
		p.release()
		return nil, nil
	}
	return newFallbackGrant(lk, p.holder, weight, p).take(ctx)
}

// admitGranted takes the local lock for a lease of the store. Usually it is free.
func (lk *acquirer) admitGranted(ctx context.Context, weight int, queue bool, granted *Lease) (*Lease, error) {
	returned := false
	defer func() {
		if !returned { // a hook panics
			lk.c.releaseLeases(lk.name, granted)
		}
	}()
	p, err := lk.c.local.join(lk, granted.HolderID(), weight, queue)
	if err == nil {
		err = p.wait(ctx, granted)
	}
	returned = true
	if err != nil {
		await(lk.c.releaseLeases(lk.name, granted), callGrace) // retried in the background
		return nil, err
	}
	if !granted.grant.(*storeGrant).setLocal(granted, p) {
		p.release()
		await(lk.c.releaseLeases(lk.name, granted), callGrace) // if it was broken, nobody else can release it
		return nil, nil
	}
	return granted, nil
}

// silentError ends an attempt with a fallback. It is ErrUnavailable.
type silentError struct {
	local *localHold // with LocalOnly: the hold for which the caller waits from now on; see joinLocal
}

func (*silentError) Error() string {
	return "store unavailable: no answer within the timeout of the fallback"
}

// Is makes errors.Is(err, ErrUnavailable) report true.
func (*silentError) Is(target error) bool { return target == ErrUnavailable }

// silentOf returns the silentError that ended an attempt, or nil. If ctx ended it, the cause of ctx may contain the
// silentError of another attempt.
func silentOf(err error) *silentError {
	w, ok := errors.AsType[*waitError](err)
	if !ok {
		return nil
	}
	s, _ := w.ended.(*silentError)
	return s
}

// mustFallBack returns an error if an attempt with a fallback must end, since this attempt,
// or others of the client, have had no answer for too long.
func (a *attempt) mustFallBack(ctx context.Context) error {
	if a.acquirer.opts.fallback == FailClosed || a.fallbackLeft(ctx) > 0 && !a.c.breaker.open(a.req.Resource) {
		return nil
	}
	return &silentError{}
}

// joinLocal joins the queue of the local lock if the attempt ended by mustFallBack, with LocalOnly.
// The next caller of its line does the same once it has the turn, so the callers of a line stay in order.
func (a *attempt) joinLocal(err error) {
	if s := silentOf(err); s != nil && a.acquirer.opts.fallback == LocalOnly && a.req.Queue {
		s.local, _ = a.c.local.join(a.acquirer, a.c.newHolderID(), a.req.Weight, andWait) // an error is returned again by acquireOrFallBack
		if s.local != nil && !a.c.breaker.isOpen() {
			s.local.noteSilence()
		}
	}
}

// endFailed ends an attempt that got no lease, with this error. If that is a fallback, the silence of the store is
// handed off as well: the next caller of the line falls back when it has lasted for its own timeout, not after a further one.
func (a *attempt) endFailed(ctx context.Context, err error) {
	s := silentOf(err)
	if s == nil {
		a.endWait(ctx, localTurn{})
		return
	}
	ended := false
	defer func() {
		if !ended { // a hook panics
			s.local.release()
		}
	}()
	a.endWait(ctx, localTurn{silent: a.silent})
	ended = true
}

// fallbackLeft returns the remaining time until the fallback.
func (a *attempt) fallbackLeft(ctx context.Context) time.Duration {
	if a.silent.IsZero() || a.fallbackAfter == 0 {
		a.fallbackAfter = FallbackTimeout
		if end, ok := ctx.Deadline(); ok {
			if half := time.Until(end) / 2; half >= minFallbackTimeout {
				a.fallbackAfter = min(a.fallbackAfter, half)
			}
		}
	}
	if a.silent.IsZero() {
		return a.fallbackAfter
	}
	return a.fallbackAfter - time.Since(a.silent)
}

// timeout returns the bound of the next request; 0: ctx alone.
func (a *attempt) timeout(ctx context.Context) time.Duration {
	switch {
	case a.acquirer.opts.fallback != FailClosed:
		return max(a.fallbackLeft(ctx), time.Millisecond)
	case a.known:
		return requestTimeout
	}
	return 0
}

// shorten shortens a pause before the next request to the time left until the fallback.
func (a *attempt) shorten(ctx context.Context, d time.Duration) time.Duration {
	if a.acquirer.opts.fallback == FailClosed {
		return d
	}
	return min(d, max(a.fallbackLeft(ctx), time.Millisecond))
}

// noteAnswer records whether the store answered. If the request ended because of ctx, it
// records nothing.
func (a *attempt) noteAnswer(ctx context.Context, sent time.Time, err error) {
	if !errors.Is(err, ErrUnavailable) {
		a.silent = time.Time{}
		a.c.breaker.answered()
		return
	}
	if ctx.Err() != nil {
		return
	}
	if a.silent.IsZero() {
		a.silent = sent
	}
	if a.acquirer.opts.fallback != FailClosed {
		a.c.breaker.unanswered(sent, a.req.Resource, err)
	}
}
