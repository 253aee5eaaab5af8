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

// nodeRenewal is the renewal of a lease on one node.
type nodeRenewal struct {
	n       *node
	name    engine.Held
	pending bool // the request for the lease was unanswered, so the renewal proves nothing
}

// renewalOn returns the renewal that is sent to a node.
func (t *quorumLease) renewalOn(n *node) nodeRenewal {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.onNode[n.index]
	return nodeRenewal{n, s.name, s.state == requested}
}

// record records the answer of a node, before or after the outcome. If the lease is missing
// there, it is restored once a majority has it.
func (x *leaseRenewal) record(m nodeRenewal, err error) {
	if err == nil {
		x.t.seen(m)
		return
	}
	var gone *engine.NotHeldError
	if m.pending || !errors.As(err, &gone) || gone.Cause == engine.CauseBroken {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.renewed {
		x.t.restore(m, x.ttl)
		return
	}
	x.missing = append(x.missing, m)
}

// restoreMissing records that a majority has the lease, and restores it where it is missing.
func (x *leaseRenewal) restoreMissing() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.renewed = true
	for _, m := range x.missing {
		x.t.restore(m, x.ttl)
	}
}

// seen records that a node has the lease.
func (t *quorumLease) seen(m nodeRenewal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := &t.onNode[m.n.index]; s.name == m.name {
		s.state, s.provisional = s.state.after(leaseSeen), false
	}
	t.scheduleSync(m.n)
}

// restore requests the lease again on a node that does not have it, in the background. A later
// renewal tries again.
func (t *quorumLease) restore(m nodeRenewal, ttl time.Duration) {
	r, ok := t.restoreRequest(m, ttl)
	if !ok {
		return
	}
	callNodes(context.Background(), t.e, t.clientID(), []*node{m.n}, 1, func(ctx context.Context, n *node) (engine.Answer, error) {
		a, err := n.Acquire(ctx, r)
		if err != nil || a.Status != engine.Marked || r.Mark == 0 {
			return a, err
		}
		// The lease ended there but its mark did not. The other nodes have both.
		if err := endMark(ctx, n, r.Resource, m.name.Token, m.name.Token+t.request.Reserve); err != nil {
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
func (t *quorumLease) restoreRequest(m nodeRenewal, ttl time.Duration) (r engine.Request, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.onNode[m.n.index]
	if t.request.ID == "" || t.ended || s.state == requested || s.name != m.name {
		return r, false
	}
	if s.state == unknown { // otherwise the late request could be granted besides
		t.e.releaseInBackground(m.n, t.clientID(), engine.Release{Resource: t.res, Held: s.name, Withdraw: true})
	}
	r = t.request
	r.Ballot, r.TTL, r.Reserve = t.e.tokens.next(t.res), ttl, 0
	r.ID, r.Turn = leaseID(leaseID(t.holderID, t.token), r.Ballot), frontPlace
	s.state, s.name, s.weight, s.provisional = s.state.after(requestSent), engine.Held{ID: r.ID, Token: r.Ballot}, r.Weight, false
	return r, true
}
