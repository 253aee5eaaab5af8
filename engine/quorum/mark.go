package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// markGrant gives a lease that was just granted up for one that marks, on each node
// in one step. Only the holder marks: a try that fails must leave no mark, or such
// tries together would make a majority of marks for work that nobody did.
func (e *Engine) markGrant(ctx context.Context, a *attempt, r engine.Request) (engine.Answer, error) {
	first, _ := a.standing()
	need := e.needed(r.Kind, r.Capacity)
	r.Ballot = a.propose(&e.tokens, r.Resource)
	first.mu.Lock()
	yields := make([]engine.Held, len(first.shares))
	for i := range yields {
		yields[i] = first.shares[i].name
	}
	first.mu.Unlock()
	t := e.propose(ctx, a.name(r), r, need, yields)
	a.add(t)
	ttl, yes := t.wait(ctx)
	yes = yes && usableFor(ttl, time.Since(t.sent))
	if yes {
		e.tokens.heard(r.Resource, t.token+r.Reserve)
		if a.win(t, ttl) {
			first.giveUp() // where it was not yielded
			e.lines.leave(r.Resource, r.ID)
			e.lines.disband(r.Resource)
			return engine.Answer{Status: engine.Granted, Token: t.token, TTL: ttl}, nil
		}
	}
	votes := t.ballots()
	t.unmark(votes)
	a.lose(t)
	a.lose(first)
	return engine.Answer{}, fmt.Errorf("the mark: %w", notGranted(votes, need))
}

// unmark ends the marks of a try that failed, where it may have made some: after the
// node refuses what is still under way, or that would mark once more.
func (t *round) unmark(votes []vote) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for i, v := range votes {
		s := &t.shares[i]
		if s.at == absent || s.at == returned {
			continue
		}
		s.unmark = v.granted() || !v.in || unavailable(v.err)
		if s.at == asked {
			s.at = s.at.after(ends)
		}
		t.owe(t.e.nodes[i])
	}
}

// breakMark ends the mark of the round on one node, while its token is the node's last,
// since a later mark is somebody else's. Nobody is granted anything while the mark is
// there, so it cannot change hands meanwhile.
func (t *round) breakMark(ctx context.Context, n *node) error {
	s, err := n.Snapshot(ctx, t.res)
	if err != nil || s.Marked == 0 || s.Token != t.token+t.req.Reserve {
		return err
	}
	return n.Break(ctx, t.res, engine.Break{ID: engine.MarkID})
}
