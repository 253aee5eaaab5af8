package quorum

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/engine"
)

// errRequestPending is the result on a node that does not have the lease and may still grant it.
var errRequestPending = errors.New("it has not answered the request for the lease")

// Break implements engine.Engine. It returns when a majority of the nodes has broken the
// lease. Without Force each of these nodes keeps the lease until its holder releases it or its
// TTL ends, so no other lease gets a majority before that. On a node that missed the break it
// is repeated in the background, without effect if the lease has ended by then.
func (e *Engine) Break(ctx context.Context, res engine.Resource, b engine.Break) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	defer e.localQueues.wakeFirst(res)
	if b.ID == engine.MarkID {
		return e.breakMark(ctx, res)
	}
	var known *quorumLease
	if a := e.attempts.find(attemptKey{res, b.ID}); a != nil {
		known, _ = a.status()
	}
	client := engine.ClientOf(b.ID)
	breakOn := func(ctx context.Context, n *node) error { return e.breakOn(ctx, n, res, b, known) }
	return e.breakOutcome(callNodes(ctx, e, client, e.nodes, e.majority, withoutValue(breakOn), func(n *node, _ none, err error) {
		if unavailable(err) {
			e.dispatcher.callInBackground(client, n, breakOn, nil)
		}
	}))
}

// breakOutcome waits until the outcome of a break is certain, and returns it.
func (e *Engine) breakOutcome(p *fanOut[none]) error {
	c := e.majorityTally()
	for r := range p.answers() {
		if c.add(r.node, r.err); c.final() {
			break
		}
		if c.lost() || c.removed() {
			p.startGrace()
		}
	}
	if c.confirmations > 0 && c.removed() {
		return nil // no majority has the lease; the wake-up of one node may have made its holder release it
	}
	return c.outcome(p.ctx, "ended it")
}

// breakOn breaks the lease or the wait of a holder ID on one node. known is the lease, if this
// process has acquired it: a break of an earlier ballot does not count, nor does a node that may
// still grant the lease.
func (e *Engine) breakOn(ctx context.Context, n *node, res engine.Resource, b engine.Break, known *quorumLease) error {
	id := b.ID
	if b.Token != 0 { // the ID on the node follows from the token, unless the lease was restored
		b.ID = leaseID(id, b.Token)
		var gone *engine.NotHeldError
		if err := n.Break(ctx, res, b); !errors.As(err, &gone) || gone.Cause == engine.CauseBroken {
			return err
		}
		b.ID = id
	}
	all, err := holdersOn(ctx, n, res, b)
	if err != nil {
		return err
	}
	broken := false
	for _, h := range all {
		if holder, _ := parseLeaseID(h.ID); holder == id || h.ID == id {
			b.ID = h.ID
			err := n.Break(ctx, res, b)
			if err != nil && !notHeld(err) {
				return err
			}
			broken = broken || err == nil && (known == nil || leaseOf(h).Token == known.token)
		}
	}
	switch {
	case broken:
		return nil
	case known == nil:
		return n.Break(ctx, res, b)
	}
	b.ID = known.heldOn(n).ID
	awaited := known.isRequestedOn(n)
	if err = n.Break(ctx, res, b); awaited && notHeld(err) {
		return errRequestPending
	}
	return err
}

// holdersOn returns holders on a node, including the one to break. If the token is set, the
// caller has it from a Peek, so a Peek shows that holder.
func holdersOn(ctx context.Context, n *node, res engine.Resource, b engine.Break) ([]engine.Holder, error) {
	brief, err := n.Peek(ctx, res)
	// A peek at a condition would leave out a lease that is breaking.
	if err != nil || b.Token != 0 || !brief.More && brief.Kind != engine.KindCond {
		return brief.Holders, err
	}
	s, err := n.Snapshot(ctx, res)
	return s.Holders, err
}

// breakMark is Break for the mark. It returns when a majority of the nodes has ended the
// mark. The resource can then be marked again before the break reaches another node, so
// a node ends only a mark that is not later than the one that the majority showed.
func (e *Engine) breakMark(ctx context.Context, res engine.Resource) error {
	all, err := e.peekAll(ctx, res)
	if err != nil {
		return err
	}
	last := uint64(0)
	for _, one := range all {
		if one.Marked > 0 {
			last = max(last, one.Token)
		}
	}
	if last == 0 {
		return &engine.NotHeldError{Cause: engine.CauseDeleted}
	}
	p := callNodes(ctx, e, "", e.nodes, e.majority, withoutValue(func(ctx context.Context, n *node) error {
		return endMark(ctx, n, res, 0, last)
	}), nil)
	if err := e.breakOutcome(p); err != nil || e.merge(res, all).Marked > 0 {
		return err
	}
	return &engine.NotHeldError{Cause: engine.CauseDeleted} // too few nodes had the mark: an earlier break had not reached them
}

// endMark ends the mark on one node, if the node's last token is one of from to last.
// While the mark exists nothing is granted, so another lease cannot replace it meanwhile.
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
