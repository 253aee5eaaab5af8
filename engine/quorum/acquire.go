package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// contention is how long tries that divide the nodes among themselves are made again,
	// before what is in their way is taken for holders.
	contention = 250 * time.Millisecond
	// rounds is how often one who waits proposes in one Acquire, if others only try as
	// well.
	rounds = 5
)

// Acquire implements engine.Engine. It proposes a token to all nodes at once and is
// granted if a majority grants it while it can still be used; else everything is
// taken back. A request that waits leaves its turn on the nodes, and is answered Queued.
func (e *Engine) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	if err := e.usable(ctx); err != nil {
		return engine.Answer{}, err
	}
	k := key{r.Resource, r.ID}
	a := e.attempts.open(k)
	if err := a.enter(ctx); err != nil {
		return engine.Answer{}, err
	}
	defer a.leave()
	if r.Yields.ID != "" {
		var gone *engine.NotHeldError
		err := e.Release(ctx, engine.Release{Resource: r.Resource, Held: r.Yields})
		if err != nil && !errors.As(err, &gone) {
			return engine.Answer{}, err
		}
	}
	switch lease, over := a.standing(); {
	case over != 0:
		return engine.Answer{}, &engine.EndedError{Cause: over}
	case lease != nil:
		return e.confirm(ctx, a, lease, r.TTL)
	}
	patient := r.Queue && r.Ballot == 0
	if patient {
		if ahead := e.lines.ahead(r.Resource, r.ID); ahead > 0 {
			return a.queue(engine.Answer{}, e.lines.join(r.Resource, r.ID)), nil
		}
	}
	ans, err := e.campaign(ctx, a, r)
	if _, over := a.standing(); over != 0 && err != nil {
		err = &engine.EndedError{Cause: over}
	}
	switch {
	case patient && err == nil && ans.Status == engine.Busy:
		ahead := e.lines.join(r.Resource, r.ID)
		if ahead > 0 { // others of this process came at the same moment; it asks when it is first
			a.endTurn()
		}
		return a.queue(ans, ahead), nil
	case patient && err == nil && ans.Status == engine.Marked:
		a.endTurn()
		e.lines.disband(r.Resource)
	case patient && !unavailable(err):
		a.endTurn()
		e.lines.leave(r.Resource, r.ID)
	}
	switch {
	case unavailable(err):
		a.linger() // it may be asked for again
	case err != nil || ans.Status != engine.Granted:
		e.forget(k, a)
	}
	return ans, err
}

// forget drops an attempt of which nothing is left.
func (e *Engine) forget(k key, a *attempt) {
	a.mu.Lock()
	idle := a.over == 0 && a.lease == nil && len(a.rounds) == 0
	a.mu.Unlock()
	if idle {
		e.attempts.forget(k, a, 0)
		return
	}
	a.linger()
}

// queue is the answer to one who waits, with so many ahead in this process. Next is the
// time until a lease that is in the way ends, if it is not renewed.
func (a *attempt) queue(busy engine.Answer, ahead int) engine.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = true
	a.keep = time.Now().Add(insistence)
	return engine.Answer{Status: engine.Queued, Position: ahead + busy.Position, Next: busy.Next}
}

// confirm answers a repeated request for a live lease, which counts as a renewal.
func (e *Engine) confirm(ctx context.Context, a *attempt, lease *round, ttl time.Duration) (engine.Answer, error) {
	if lease.isBrief() {
		return e.prolong(ctx, a, ttl)
	}
	a.mu.Lock()
	ttl = max(ttl, time.Until(a.deadline))
	a.mu.Unlock()
	err := e.renewOne(ctx, a, lease, ttl)
	var gone *engine.NotHeldError
	switch {
	case errors.As(err, &gone):
		return engine.Answer{}, &engine.EndedError{Cause: gone.Cause}
	case err != nil:
		return engine.Answer{}, err
	}
	return engine.Answer{Status: engine.Granted, Token: lease.token, TTL: ttl}, nil
}

// campaign proposes until it is clear whether the lease can be had now, which is so if
// a majority of the nodes answers. It is granted if enough of them grant it; else it is
// Busy if any of them names a holder, whoever the others name. Holders that have no
// majority may be others who only try: those are asked again for a while, and one who
// waits for a shorter one. With others ahead in the lines of the nodes it is Busy at
// once. A request that gives its ballot wants to know about leases, so it is never Busy
// because of tries, or of those who wait.
func (e *Engine) campaign(ctx context.Context, a *attempt, r engine.Request) (engine.Answer, error) {
	if r.Weight > r.Capacity {
		return engine.Answer{}, engine.ErrTooHeavy
	}
	given := r.Ballot
	r.Queue = r.Queue && given == 0
	if given != 0 {
		r.Turn = foremost
	}
	mark := r.Mark
	r.Mark = 0 // a mark must not be left by a try that fails: see markGrant
	start := time.Now()
	look := looks{e: e}
	var busy engine.Answer // the latest that names somebody else
	for n := 1; ; n++ {
		if given == 0 {
			r.Ballot = a.propose(&e.tokens, r.Resource)
		}
		ans, split, err := e.try(ctx, a, r)
		if err == nil && ans.Status == engine.Busy && ans.Position == 0 && r.Capacity > 1 && (split || ans.Holder.Weight+r.Weight <= r.Capacity) {
			// The holder that was named is not, or not alone, what is in the way.
			split, err = look.beside(ctx, r, &ans, given)
		}
		if ans.Status == engine.Busy && ans.Holder.ID == r.ID {
			split = true // an earlier try of its own
			a.recant()
		} else if ans.Status == engine.Busy && ans.Holder.ID != "" && given == 0 {
			busy = ans
		}
		outbid := ans.Status == engine.Outbid && given == 0
		switch {
		case err != nil:
			return ans, err
		case ans.Status == engine.Granted && mark > 0:
			r.Mark = mark
			return e.markGrant(ctx, a, r)
		case ans.Status == engine.Granted && brief(r.TTL):
			return e.prolong(ctx, a, r.TTL)
		case outbid:
			e.tokens.heard(r.Resource, ans.Last)
		case !split:
			return ans, nil
		}
		switch {
		case n >= rounds && r.Queue:
			return engine.Answer{Status: engine.Busy}, nil
		case busy.Status == engine.Busy && n > 2 && time.Since(start) > contention:
			return busy, nil
		case time.Since(start) > patience:
			return engine.Answer{}, fmt.Errorf("%w: quorum: others try as well, and nobody has had a majority for %v", engine.ErrUnavailable, patience)
		case outbid && n == 1:
			continue // the next proposal is high enough, as a rule
		}
		if !rest(ctx, rand.N(time.Millisecond<<min(n, 5))) {
			return engine.Answer{}, ended(ctx)
		}
	}
}

// rest waits; it returns false when ctx ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try is one round.
func (e *Engine) try(ctx context.Context, a *attempt, r engine.Request) (engine.Answer, bool, error) {
	need := e.needed(r.Kind, r.Capacity)
	short := brief(r.TTL)
	if short {
		r.TTL = engine.ClaimWindow
	}
	turn := a.takeTurn(e, &r)
	t := e.propose(ctx, a.name(r), r, need, nil, turn)
	a.add(t)
	ttl, yes := t.wait(ctx)
	// Where it was granted, what was reserved is given as well, also if it is taken back.
	e.tokens.heard(r.Resource, t.token+r.Reserve)
	if !yes {
		votes := t.ballots()
		a.lose(t)
		if failed(votes, engine.ErrBallot) > 0 {
			a.tooFar(&e.tokens, r.Resource)
		}
		if ctx.Err() != nil {
			return engine.Answer{}, false, fmt.Errorf("%w: %w", ended(ctx), notGranted(votes, need))
		}
		ans, split, err := refusal(votes, need)
		e.tokens.heard(r.Resource, ans.Last)
		if behind(votes, need, r.Queue) && err == nil && ans.Status == engine.Busy {
			ans.Position, split = 1, false
		}
		if called := turn.refused(need - said(votes, engine.Granted)); called && err == nil && ans.Status == engine.Busy {
			ans.Position, split = 0, true
		}
		return ans, split, err
	}
	e.tokens.heard(r.Resource, lastTurn(t.ballots()))
	if !usableFor(ttl, time.Since(t.sent)) {
		a.lose(t)
		return engine.Answer{}, false, fmt.Errorf("%w: quorum: %w", engine.ErrUnavailable, errTooLate)
	}
	t.mu.Lock()
	t.brief = short
	t.mu.Unlock()
	if !a.win(t, ttl) {
		a.lose(t)
		return engine.Answer{}, false, fmt.Errorf("%w: quorum: it was withdrawn", engine.ErrUnavailable)
	}
	a.endTurn()
	if r.Weight < r.Capacity {
		e.lines.wake(r.Resource) // there may be room for more
	}
	return engine.Answer{Status: engine.Granted, Token: t.token, TTL: ttl}, false, nil
}

// usableFor tells whether anything is left of a lease that was asked for so long ago.
// What is kept back is what a holder keeps back for clocks of different rates.
func usableFor(ttl, ago time.Duration) bool {
	return ago < ttl-ttl/50-20*time.Millisecond || ago < ttl/2
}

// tokens remembers the highest token that was heard of, by resource, so that the
// next proposal is above it. To forget one costs a round.
type tokens struct {
	mu   sync.Mutex
	last map[engine.Resource]uint64
}

// next proposes a token.
func (k *tokens) next(r engine.Resource) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := max(k.last[r]+1, uint64(max(1, time.Now().UnixMicro())))
	return t
}

// remembered is how many resources' tokens are.
const remembered = 4096

// heard takes note of a token that was given or is reserved. One that the clock has
// passed need not be remembered.
func (k *tokens) heard(r engine.Resource, last uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := uint64(max(1, time.Now().UnixMicro()))
	last = max(last, k.last[r])
	if last < now {
		delete(k.last, r)
		return
	}
	if k.last == nil || len(k.last) >= remembered {
		k.last = make(map[engine.Resource]uint64)
	}
	k.last[r] = last
}

func (k *tokens) forget(r engine.Resource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.last, r)
}
