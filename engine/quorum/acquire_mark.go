package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// grantMark replaces a lease that was just granted by one that marks, on each node in one
// step. Only the holder marks: a ballot that fails must leave no mark, or such ballots together
// would make a majority of marks for work that nobody did.
func (e *Engine) grantMark(ctx context.Context, a *attemptState, r engine.Request) (engine.Answer, error) {
	first, _ := a.status()
	if first == nil {
		return engine.Answer{}, errWithdrawn
	}
	need := e.votesNeeded(r.Kind, r.Capacity)
	r.Ballot = a.nextToken(&e.tokens, r.Resource)
	r.Queue, r.Turn = false, frontPlace
	t, ttl, granted := e.propose(ctx, a, r, need, first, nil)
	if granted && usableFor(ttl, time.Since(t.sent)) && a.setLease(t, ttl) {
		first.withdraw() // where it was not yielded
		e.localQueues.remove(r.Resource, r.ID)
		e.localQueues.clear(r.Resource)
		return engine.Answer{Status: engine.Granted, Token: t.token, TTL: ttl}, nil
	}
	votes := t.votesSoFar()
	t.withdrawMark(votes)
	a.withdraw(t)
	a.withdraw(first)
	return engine.Answer{}, fmt.Errorf("the mark: %w", notGranted(votes, need))
}

// withdrawMark ends the marks of a ballot that failed, where it may have made some: after the
// node refuses what is still under way, which would otherwise mark once more.
func (t *quorumLease) withdrawMark(votes []vote) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for i, v := range votes {
		s := &t.onNode[i]
		if s.state == absent || s.state == released {
			continue
		}
		s.mayBeMarked = v.granted() || !v.answered || unavailable(v.err)
		if s.state == requested {
			s.state = s.state.after(removalDue)
		}
		t.scheduleSync(t.e.nodes[i])
	}
}

// endMark ends the mark of the ballot on one node, while its token is the node's last, since a
// later mark is another's.
func (t *quorumLease) endMark(ctx context.Context, n *node) error {
	last := t.token + t.request.Reserve
	if err := endMark(ctx, n, t.res, last, last); !notHeld(err) {
		return err
	}
	return nil
}
