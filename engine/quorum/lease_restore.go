package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A node may not have the lease because it was down until the TTL, has lost its data, or has
// refused the request. While a majority has the lease, renewals restore it on such nodes, so
// nodes can be restarted one after the other while a lease is held. A node on which the lease is
// restored does not count in that renewal. It counts in later ones, since from then on it cannot
// grant the resource to another holder.
//
// On a node that has refused the lease, as a spare does that a rival's ballot has reached first, it
// is restored without awaiting the outcome: a majority keeps the lease for its TTL, but if a node of
// it has failed since, no renewal is confirmed before that. This is for a capacity of 1: the unit of
// a waiter that was signalled is not released by its process, so nothing of it must be restored.

// missingLease is a lease that a renewal has not found on a node.
type missingLease struct {
	n    *node
	name engine.Held
}

// record records the answer of a node that was called in a state, before or after the outcome. If
// the lease is missing there, it is restored once a majority has it. If the request for it was
// unanswered, the renewal proves nothing.
func (x *leaseRenewal) record(n *node, was nodeLease, err error) {
	if err == nil {
		x.t.seen(n, was.name)
		return
	}
	if gone, ok := errors.AsType[*engine.NotHeldError](err); was.state == requested || !ok || gone.Cause == engine.CauseBroken {
		return
	}
	if was.state == absent && x.t.request.Capacity == 1 && x.a.isHeld() {
		x.t.restore(n, was.name, x.ttl)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.missing = append(x.missing, missingLease{n, was.name})
	x.restoreMissing()
}

// restoreMissing restores the lease where it is missing, if a majority has it. The mutex is held.
func (x *leaseRenewal) restoreMissing() {
	for x.renewed && len(x.missing) > 0 {
		x.t.restore(x.missing[0].n, x.missing[0].name, x.ttl)
		x.missing = x.missing[1:]
	}
}

// seen records that a node has the lease.
func (t *quorumLease) seen(n *node, name engine.Held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := &t.onNode[n.index]; s.name == name {
		s.state, s.provisional = s.state.after(leaseSeen), false
	}
	t.scheduleSync(n)
}

// restore requests the lease again, in the background, on a node that does not have it under a
// name. A later renewal tries again.
func (t *quorumLease) restore(n *node, name engine.Held, ttl time.Duration) {
	r, ok := t.restoreRequest(n, name, ttl)
	if !ok {
		return
	}
	callNodes(context.Background(), t.e, t.clientID(), []*node{n}, 1, func(ctx context.Context, n *node) (engine.Answer, error) {
		a, err := n.Acquire(ctx, r)
		if err != nil || a.Status != engine.Marked || r.Mark == 0 {
			return a, err
		}
		// The lease ended there but its mark did not. The other nodes have both.
		if err := endMark(ctx, n, r.Resource, name.Token, name.Token+t.request.Reserve); err != nil {
			return a, err
		}
		return n.Acquire(ctx, r)
	}, func(n *node, a engine.Answer, err error) {
		if err == nil && a.Status == engine.Outbid {
			t.e.tokens.observe(t.res, a.Last)
		}
		t.recordAnswer(n, a, err)
	})
}

// restoreRequest returns the request that restores the lease on a node, unless it was sent
// after the renewal. The lease gets a new ID and a new token there, since the node refuses the
// ID that has ended.
func (t *quorumLease) restoreRequest(n *node, name engine.Held, ttl time.Duration) (r engine.Request, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.onNode[n.index]
	if t.request.ID == "" || t.ended || s.state == requested || s.name != name {
		return r, false
	}
	if s.state == unknown || t.isSpreadElsewhere() { // otherwise the late request could be granted besides
		t.e.releaseInBackground(n, t.clientID(), engine.Release{Resource: t.res, Held: s.name, Withdraw: true})
	}
	r = t.request
	r.Ballot, r.TTL, r.Reserve = t.e.tokens.next(t.res), ttl, 0
	r.Mark = max(0, r.Mark-time.Since(t.markFrom)) // it ends there as on the other nodes
	r.ID, r.Turn = leaseID(leaseID(t.holderID, t.token), r.Ballot), frontPlace
	s.state, s.name, s.weight, s.provisional = s.state.after(requestSent), engine.Held{ID: r.ID, Token: r.Ballot}, r.Weight, false
	return r, true
}
