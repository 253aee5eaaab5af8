package quorum

import (
	"cmp"
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
	lease, err := e.leaseToBreak(ctx, res, b)
	if err != nil {
		return err
	}
	if lease.isYoung() && !sleep(ctx, 2*spreadDelay) { // until it is on all nodes
		return contextError(ctx)
	}
	return e.breakOutcome(callUntilAnswered(ctx, e, lease.clientID(), e.nodes, e.majority, func(ctx context.Context, n *node) error {
		return lease.breakOn(ctx, n, b)
	}))
}

// leaseToBreak returns the lease of a holder ID.
func (e *Engine) leaseToBreak(ctx context.Context, res engine.Resource, b engine.Break) (*quorumLease, error) {
	if a := e.attempts.find(attemptKey{res, b.ID}); a != nil {
		if lease, _ := a.status(); lease != nil {
			return lease, nil
		}
	}
	held := engine.Held{ID: b.ID, Token: b.Token}
	if b.Token == 0 {
		if lease, err := e.lookUpLease(ctx, res, held); lease != nil || err != nil {
			return lease, err
		}
	}
	return e.assumedLease(res, held), nil
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

// breakOn breaks the lease on one node, where it has another ID if it was restored. A node with an
// earlier ballot of the attempt, which does not count, may still grant the lease.
func (t *quorumLease) breakOn(ctx context.Context, n *node, b engine.Break) error {
	peeked := b.Token != 0
	was := t.on(n)
	b.ID, b.Token = was.name.ID, was.name.Token
	err := n.Break(ctx, t.res, b)
	if gone, ok := errors.AsType[*engine.NotHeldError](err); !ok || gone.Cause == engine.CauseBroken {
		return err
	}
	pending := was.state == requested
	all, lookup := holdersOn(ctx, n, t.res, peeked)
	if lookup != nil {
		return lookup
	}
	for _, h := range all {
		switch lease := leaseOf(h); {
		case lease == engine.Held{ID: t.holderID, Token: t.token}:
			b.ID, b.Token = h.ID, h.Token
			err = n.Break(ctx, t.res, b)
		case lease.ID == t.holderID:
			pending = true
		}
	}
	switch {
	case !notHeld(err):
		return err
	case b.Force: // the owner does not release it
		return cmp.Or(t.refuse(ctx, n, was.name), err)
	case pending:
		return errRequestPending
	}
	return err
}

// holdersOn returns the holders on a node, or those that a Peek shows.
func holdersOn(ctx context.Context, n *node, res engine.Resource, peeked bool) ([]engine.Holder, error) {
	if peeked {
		brief, err := n.Peek(ctx, res)
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
	p := callUntilAnswered(ctx, e, "", e.nodes, e.majority, func(ctx context.Context, n *node) error {
		return endMark(ctx, n, res, 0, last)
	})
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
