package holdfast

import (
	"context"
	"errors"
	"time"
)

// Fallback says what a lock does while the store is unavailable. That is: it
// could not be reached, or did not answer. A resource that is held, a request
// that the store refuses and a ctx that ends are something else and never make a
// lock fall back.
type Fallback uint8

// The fallbacks.
const (
	// FailClosed: no lease without the store. Lock waits for it, TryLock says
	// ErrUnavailable.
	FailClosed Fallback = iota
	// FailOpen: the work goes on unlocked, as if the lease had been granted.
	FailOpen
	// LocalOnly: a lease that keeps out the other callers of this client only,
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

// FallbackPatience is how long the store may leave a request with a fallback
// unanswered before the lock falls back: a failover or a restart that is quicker
// is ridden out. With a ctx that ends sooner it is half of the time left, so that
// there is some for the work, but not below 250 ms: a ctx with less than twice
// that ends before. TryLock falls back earlier if the store cannot be reached in
// three tries. Once a client has asked in vain for so long, its further calls fall
// back at once, until the store answers again.
const FallbackPatience = time.Second

// leastPatience is when a silence is one, and not a slow answer.
const leastPatience = 250 * time.Millisecond

// Fallback tells how the lease was granted: FailClosed by the store, and so it
// excludes others everywhere; FailOpen or LocalOnly in its absence. Such a lease
// has the token 0, which every fence refuses; it is not lost when the store comes
// back, nor told that others hold the resource then. A Multi of which one
// resource fell back is a fallback.
func (l *Lease) Fallback() Fallback { return l.footing.fallback() }

// get asks the store for a lease, and falls back if it must.
func (lk *locker) get(ctx context.Context, weight int, queue bool) (*Lease, Source, error) {
	ask := lk.once
	if queue {
		ask = lk.wait
	}
	if lk.opts.fallback == FailClosed {
		return ask(ctx, weight)
	}
	c := lk.c
	for {
		var granted *Lease
		var silent silence
		source := FromFallback
		if !c.breaker.open(c.resource(lk.name)) {
			l, from, err := ask(ctx, weight)
			_ = errors.As(err, &silent)
			switch {
			case err == nil:
				granted, source = l, from
			case !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || c.life.Err() != nil:
				silent.place.leave()
				return nil, 0, err
			}
		}
		l, err := lk.settle(ctx, weight, queue, granted, silent.place)
		if err != nil {
			return nil, 0, err
		}
		if l != nil {
			return l, source, nil
		}
	}
}

// settle returns the lease that the store granted or, if that is nil, one without
// the store. With LocalOnly it sees that both kinds keep out each other; it returns
// nil if that took a wait after which the store has to be asked again. A place that
// the caller has already is p.
func (lk *locker) settle(ctx context.Context, weight int, queue bool, granted *Lease, p *place) (*Lease, error) {
	switch {
	case lk.opts.fallback == FailOpen && granted != nil:
		return granted, nil
	case lk.opts.fallback == FailOpen:
		return newSubstitute(lk, lk.c.newHolderID(), weight, nil).take(ctx)
	case granted != nil:
		return lk.admit(ctx, weight, queue, granted)
	}
	var err error
	if p == nil {
		p, err = lk.c.rooms.join(lk, lk.c.newHolderID(), weight, queue)
	}
	if err != nil {
		return nil, err
	}
	if err := p.enter(ctx, nil); err != nil {
		return nil, err
	}
	if p.waited() && !lk.c.breaker.open(lk.c.resource(lk.name)) {
		p.leave()
		return nil, nil
	}
	return newSubstitute(lk, p.holder, weight, p).take(ctx)
}

// admit lets a lease of the store in among those of this client that were granted
// without it. Usually there are none.
func (lk *locker) admit(ctx context.Context, weight int, queue bool, granted *Lease) (*Lease, error) {
	p, err := lk.c.rooms.join(lk, granted.HolderID(), weight, queue)
	if err == nil {
		err = p.enter(ctx, granted)
	}
	if err != nil {
		await(lk.c.drop(lk.name, granted), callGrace) // the rest in the background
		return nil, err
	}
	if !granted.footing.(*holding).settle(granted, p) {
		p.leave()
		return nil, nil
	}
	return granted, nil
}

// silence is why an attempt with a fallback gives up. It is ErrUnavailable.
type silence struct {
	place *place // where the caller waits from now on, with LocalOnly
}

func (silence) Error() string {
	return "store unavailable: it has not answered in time for a lock with a fallback"
}

// Is makes errors.Is(err, ErrUnavailable) hold.
func (silence) Is(target error) bool { return target == ErrUnavailable }

// forsaken returns an error if an attempt with a fallback should give up, since the
// store has been silent for too long, towards it or towards others. The caller has
// a place in the room then, before the next one of its line gets the turn and does
// the same: so they keep their order.
func (a *attempt) forsaken(ctx context.Context) error {
	if a.lk.opts.fallback == FailClosed || a.patience(ctx) > 0 && !a.c.breaker.open(a.req.Resource) {
		return nil
	}
	var s silence
	if a.lk.opts.fallback == LocalOnly && a.req.Queue {
		s.place, _ = a.c.rooms.join(a.lk, a.c.newHolderID(), a.req.Weight, true) // an error comes again
	}
	return s
}

// patience is what is left of the time in which the store has to answer.
func (a *attempt) patience(ctx context.Context) time.Duration {
	if !a.silent.IsZero() {
		return a.bears - time.Since(a.silent)
	}
	a.bears = FallbackPatience
	if end, ok := ctx.Deadline(); ok {
		if half := time.Until(end) / 2; half >= leastPatience {
			a.bears = min(a.bears, half)
		}
	}
	return a.bears
}

// limit bounds the next request; with 0 only ctx does.
func (a *attempt) limit(ctx context.Context) time.Duration {
	switch {
	case a.lk.opts.fallback != FailClosed:
		return max(a.patience(ctx), time.Millisecond)
	case a.known:
		return askPatience
	}
	return 0
}

// within shortens a pause before the next request to what the fallback allows.
func (a *attempt) within(ctx context.Context, d time.Duration) time.Duration {
	if a.lk.opts.fallback == FailClosed {
		return d
	}
	return min(d, max(a.patience(ctx), time.Millisecond))
}

// heard takes note of whether the store answered. What the end of ctx cut short
// tells nothing.
func (a *attempt) heard(ctx context.Context, sent time.Time, err error) {
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
	if a.lk.opts.fallback != FailClosed {
		a.c.breaker.unanswered(sent, a.req.Resource)
	}
}
