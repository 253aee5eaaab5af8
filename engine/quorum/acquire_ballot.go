package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// contentionTimeout is how long ballots are repeated if concurrent ballots divide the
	// nodes among themselves. After that, the other ballots count as holders.
	contentionTimeout = 250 * time.Millisecond
	// maxBallots is the maximum number of ballots that one Acquire with Queue runs if it conflicts
	// only with other ballots.
	maxBallots = 5
)

var (
	errTooLate   = errors.New("the grant came when its time was nearly over")
	errWithdrawn = fmt.Errorf("%w: quorum: the attempt was withdrawn", engine.ErrUnavailable)
)

// runBallots proposes tokens until it is certain whether the lease can be granted now, for
// which a majority of the nodes must answer. The answer is Granted if enough nodes grant it;
// otherwise Busy if any node names a holder, even if nodes name different ones. Holders without
// a majority may be other ballots, so runBallots repeats its own for contentionTimeout, and
// maxBallots times for a request with Queue. If waiters are ahead in the queues of the nodes
// the answer is Busy at once. A request with a given ballot only checks for leases, so it is
// never Busy because of other ballots or of waiters.
func (e *Engine) runBallots(ctx context.Context, a *attemptState, r engine.Request) (engine.Answer, error) {
	if r.Weight > r.Capacity {
		return engine.Answer{}, engine.ErrTooHeavy
	}
	given := r.Ballot
	r.Queue = r.Queue && given == 0
	if given != 0 {
		r.Turn = frontPlace
	}
	mark := r.Mark
	r.Mark = 0 // a ballot that fails must not leave a mark: see grantMark
	start := time.Now()
	shared := sharedCheck{e: e}
	var busy engine.Answer // the latest that names another holder
	for n := 1; ; n++ {
		if given == 0 {
			r.Ballot = e.tokens.next(r.Resource)
		}
		ans, contended, err := e.ballot(ctx, a, r)
		if err == nil && ans.Status == engine.Busy && ans.Position == 0 && r.Capacity > 1 && (contended || ans.Holder.Weight+r.Weight <= r.Capacity) {
			// The named holder does not explain, or not alone, why the ballot failed.
			contended, err = shared.onlyBallotsInTheWay(ctx, r, &ans, given)
		}
		if ans.Status == engine.Busy && ans.Holder.ID == r.ID {
			contended = true // by an earlier ballot of the same attempt
			a.withdrawUnanswered()
		} else if ans.Status == engine.Busy && ans.Holder.ID != "" && given == 0 {
			busy = ans
		}
		outbid := ans.Status == engine.Outbid && given == 0
		lasting := n > 2 && time.Since(start) > contentionTimeout
		switch {
		case err != nil && (lasting || !contended):
			return ans, err
		case ans.Status == engine.Granted && mark > 0:
			r.Mark = mark
			return e.grantMark(ctx, a, r)
		case ans.Status == engine.Granted && isLong(r.TTL):
			return e.grantFullTTL(ctx, a, r.TTL)
		case outbid:
			e.tokens.observe(r.Resource, ans.Last)
		case !contended:
			return ans, nil
		}
		switch {
		case n >= maxBallots && r.Queue && err == nil:
			return engine.Answer{Status: engine.Busy}, nil
		case busy.Status == engine.Busy && lasting:
			return busy, nil
		case time.Since(start) > nodeTimeout:
			return engine.Answer{}, fmt.Errorf("%w: quorum: concurrent attempts, none of which got a majority for %v", engine.ErrUnavailable, nodeTimeout)
		case outbid && n == 1:
			continue // the next proposal is usually high enough
		}
		if !sleep(ctx, rand.N(time.Millisecond<<min(n, 5))) {
			return engine.Answer{}, contextError(ctx)
		}
	}
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ballot runs one ballot. contended is that of refusal.
func (e *Engine) ballot(ctx context.Context, a *attemptState, r engine.Request) (ans engine.Answer, contended bool, err error) {
	need := e.votesNeeded(r.Kind, r.Capacity)
	provisional := isLong(r.TTL)
	if provisional {
		r.TTL = engine.ClaimWindow
	}
	among := e.voters(r, need)
	turn := a.joinQueue(e, &r, among.first)
	t, votes, v := e.propose(ctx, a, r, need, among, nil, turn)
	if v != granted {
		return e.ballotFailed(ctx, a, t, r, votes)
	}
	// The next proposal of this process is above the last turn, and so is the place of its next
	// turn, whatever the clocks show.
	e.tokens.observe(r.Resource, highestLast(votes, engine.Granted))
	ttl := grantedTTL(votes, need)
	if !usableFor(ttl, time.Since(t.sent)) {
		a.withdraw(t)
		return engine.Answer{}, false, fmt.Errorf("%w: quorum: %w", engine.ErrUnavailable, errTooLate)
	}
	t.mu.Lock()
	t.provisional = provisional
	t.mu.Unlock()
	if !a.setLease(t, ttl) {
		a.withdraw(t)
		return engine.Answer{}, false, errWithdrawn
	}
	a.endTurn()
	e.spreader.add(t)
	if r.Weight < r.Capacity {
		e.localQueues.wakeFirst(r.Resource) // its weight may fit, too
	}
	return engine.Answer{Status: engine.Granted, Token: t.token, TTL: ttl}, false, nil
}

// ballotFailed withdraws a ballot that was not granted and returns the answer that follows
// from its votes.
func (e *Engine) ballotFailed(ctx context.Context, a *attemptState, t *quorumLease, r engine.Request, votes []vote) (engine.Answer, bool, error) {
	need := t.need
	a.withdraw(t)
	if countError(votes, engine.ErrBallot) > 0 {
		e.tokens.forget(r.Resource) // a node with a wrong clock has raised the token too far
	}
	if ctx.Err() != nil {
		return engine.Answer{}, false, fmt.Errorf("%w: %w", contextError(ctx), notGranted(votes, need))
	}
	ans, contended, err := refusal(votes, need)
	e.tokens.observe(r.Resource, ans.Last)
	busy := err == nil && ans.Status == engine.Busy
	if busy && behindWaiters(votes, need, r.Queue) {
		ans.Position, contended = 1, false
	}
	if t.turn != nil && t.turn.ballotRefused(need-countStatus(votes, engine.Granted)) && busy {
		ans.Position, contended = 0, true
	}
	return ans, contended, err
}

// usableFor reports whether the trust window of a lease that was requested so long ago is still
// open. The margin is that of a holder, for clocks of different rates.
func usableFor(ttl, ago time.Duration) bool {
	return ago < ttl-ttl/50-20*time.Millisecond || ago < ttl/2
}
