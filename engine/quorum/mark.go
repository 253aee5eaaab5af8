package quorum

import (
	"context"
	"errors"
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
	r.Queue, r.Turn = false, foremost
	t := e.propose(ctx, a.name(r), r, need, yields, nil)
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
// since a later mark is somebody else's.
func (t *round) breakMark(ctx context.Context, n *node) error {
	last := t.token + t.req.Reserve
	err := endMark(ctx, n, t.res, last, last)
	var gone *engine.NotHeldError
	if errors.As(err, &gone) {
		return nil
	}
	return err
}

// breakMark is Break for the mark. It returns when a majority of the nodes has ended the
// mark, so the resource can be marked anew while the break is still on its way to
// another: that node ends only what is not later than what the majority showed.
func (e *Engine) breakMark(ctx context.Context, res engine.Resource) error {
	all, err := e.survey(ctx, "", inBrief(res))
	if err != nil {
		return err
	}
	last := uint64(0)
	for _, one := range all {
		if one.snap.Marked > 0 {
			last = max(last, one.snap.Token)
		}
	}
	if last == 0 {
		return &engine.NotHeldError{Cause: engine.CauseDeleted}
	}
	p := begin(e, ctx, "", e.pick(e.majority), func(ctx context.Context, n *node) (struct{}, error) {
		return struct{}{}, endMark(ctx, n, res, 0, last)
	})
	return e.broke(p)
}

// endMark ends the mark on one node, if the node's last token is one of from to last.
// Nobody is granted anything while the mark is there, so it cannot change hands
// meanwhile.
func endMark(ctx context.Context, n *node, res engine.Resource, from, last uint64) error {
	b, err := n.Peek(ctx, res)
	switch {
	case err != nil:
		return err
	case b.Marked == 0 || b.Token < from || b.Token > last:
		return &engine.NotHeldError{Cause: engine.CauseDeleted}
	}
	return n.Break(ctx, res, engine.Break{ID: engine.MarkID})
}
