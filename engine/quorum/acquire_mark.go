package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// grantMark replaces a lease that was just granted by a lease with a mark, on each node in one
// step. Only a holder sets marks: if failed ballots left marks, several of them could add up to a
// majority of marks for work that was never done.
func (e *Engine) grantMark(ctx context.Context, a *attemptState, r engine.Request) (engine.Answer, error) {
	first, _ := a.status()
	if first == nil {
		return engine.Answer{}, errWithdrawn
	}
	need := e.votesNeeded(r.Kind, r.Capacity)
	r.Ballot = e.tokens.next(r.Resource)
	r.Queue, r.Turn = false, frontPlace
	t, votes, v := e.propose(ctx, a, r, need, e.voters(r, need), first, nil)
	if ttl := grantedTTL(votes, need); v == granted && usableFor(ttl, time.Since(t.sent)) && a.setLease(t, ttl) {
		first.withdraw() // on nodes that did not release it in the same step
		e.localQueues.remove(a)
		e.localQueues.clear(r.Resource)
		return engine.Answer{Status: engine.Granted, Token: t.token, TTL: ttl}, nil
	}
	t.withdrawMark(votes)
	a.withdraw(t)
	a.withdraw(first)
	return engine.Answer{}, fmt.Errorf("the mark: %w", notGranted(votes, need))
}

// withdrawMark ends the marks that a failed ballot may have set. Each node first withdraws the
// ballot, so that a late copy of its request does not set the mark again.
func (t *quorumLease) withdrawMark(votes []vote) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for i, v := range votes {
		s := &t.onNode[i]
		if s.state == absent || s.state == spare || s.state == released {
			continue
		}
		s.mayBeMarked = v.status(engine.Granted) || !v.answered || unavailable(v.err)
		if s.state == requested {
			s.state = s.state.after(removalDue)
		}
		t.scheduleSync(t.e.nodes[i])
	}
}

// endMark ends the mark of the ballot on one node, unless the node's last token is another one:
// then the mark is that of another lease.
func (t *quorumLease) endMark(ctx context.Context, n *node) error {
	last := t.token + t.request.Reserve
	if err := endMark(ctx, n, t.res, last, last); !notHeld(err) {
		return err
	}
	return nil
}
