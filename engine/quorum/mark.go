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
	yields := append([]engine.Held(nil), first.there...)
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
	e.unmark(t, votes)
	a.lose(t)
	a.lose(first)
	return engine.Answer{}, fmt.Errorf("the mark: %w", notGranted(votes, need))
}

// unmark ends the marks of a try that failed, where it may have made some: after the
// node refuses what is still under way, or that would mark once more; and only while
// the try's token is the node's last, since a later mark is somebody else's. Nobody
// is granted anything while the mark is there, so it cannot change hands meanwhile.
func (e *Engine) unmark(t *round, votes []vote) {
	for i, v := range votes {
		if !v.granted() && v.in && !(unavailable(v.err) && t.asked(i)) {
			continue
		}
		withdraw := engine.Release{Resource: t.res, Held: t.on(e.nodes[i]), Withdraw: true}
		sure := v.granted()
		e.insistOn(e.nodes[i], t.client(), func(ctx context.Context, n *node) error {
			if !sure {
				if err := n.Release(ctx, withdraw); err != nil {
					return err
				}
			}
			s, err := n.Snapshot(ctx, t.res)
			if err != nil || s.Marked == 0 || s.Token != t.token+t.req.Reserve {
				return err
			}
			return n.Break(ctx, t.res, engine.Break{ID: engine.MarkID})
		})
	}
}

func (t *round) asked(i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at[i].some()
}
