package quorum

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// findLease returns the lease of a holder ID: from the attempts of this process, or from
// snapshots of the nodes, since another process may have acquired it. If no node shows the lease,
// findLease returns an assumedLease. It does the same for an attempt that waits in this process:
// nodes have only its ballots, which may be withdrawn at any moment.
func (e *Engine) findLease(ctx context.Context, res engine.Resource, h engine.Held) (*attemptState, *quorumLease, error) {
	k := attemptKey{res, h.ID}
	a := e.attempts.find(k)
	if a != nil {
		a.mu.Lock()
		t, queued := a.lease, a.queued
		a.mu.Unlock()
		switch {
		case t != nil:
			return a, t, nil
		case queued && h.Token == 0:
			return &attemptState{}, e.assumedLease(res, h), nil
		}
	}
	t, err := e.lookUpLease(ctx, res, h)
	switch {
	case err != nil:
		return nil, nil, err
	case t == nil:
		return &attemptState{}, e.assumedLease(res, h), nil
	case a != nil:
		return &attemptState{}, t, nil
	}
	a = e.attempts.findOrCreate(k)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lease = t
	return a, t, nil
}

// assumedLease returns a lease of which only the holder ID and the token are known, with the IDs
// that follow from them.
func (e *Engine) assumedLease(res engine.Resource, h engine.Held) *quorumLease {
	t := &quorumLease{e: e, res: res, holderID: h.ID, token: h.Token, need: e.majority}
	for range e.nodes {
		t.onNode = append(t.onNode, nodeLease{state: held, name: engine.Held{ID: leaseID(h.ID, h.Token), Token: h.Token}})
	}
	return t
}

// lookUpLease looks for a holder ID on the nodes. It returns nil if no node has it. The
// token may be one of those that were reserved with the token of the lease.
func (e *Engine) lookUpLease(ctx context.Context, res engine.Resource, h engine.Held) (*quorumLease, error) {
	all, err := e.snapshots(ctx, engine.ClientOf(h.ID), res)
	if err != nil {
		return nil, err
	}
	var lease engine.Held // the latest: earlier ballots may remain on some nodes
	for k := range observe(all) {
		if k.ID == h.ID && (h.Token == 0 || k.Token <= h.Token) && k.Token > lease.Token {
			lease = k
		}
	}
	if lease.Token == 0 {
		return nil, nil
	}
	t := e.assumedLease(res, lease)
	t.markFrom = time.Now()
	for i := range t.onNode {
		t.onNode[i].state = unknown
	}
	for _, one := range all {
		s := &t.onNode[one.node.index]
		s.state = absent
		for _, holder := range one.Holders {
			if leaseOf(holder) == lease {
				s.state, s.name, s.weight = held, engine.Held{ID: holder.ID, Token: holder.Token}, holder.Weight
				t.need = e.votesNeeded(one.Kind, one.Capacity)
				t.setRequest(one.Snapshot, holder)
			}
		}
	}
	return t, nil
}

// setRequest derives the request of a lease that another process acquired from the snapshot of
// one node, so that the lease can be restored on nodes that do not have it. If nodes show
// different weights, the lowest is the latest, since weights never grow. With a capacity of 1 only
// this lease can have marked the resource.
func (t *quorumLease) setRequest(s engine.Snapshot, h engine.Holder) {
	r := engine.Request{
		Resource: t.res, ID: t.holderID, Client: &h.Client, Kind: s.Kind, Capacity: s.Capacity,
		Weight: h.Weight, Reason: h.Reason,
	}
	if s.Capacity == 1 && s.Token >= h.Token {
		r.Mark, r.Reserve = s.Marked, s.Token-h.Token
	}
	if t.request.ID != "" {
		r.Weight = min(r.Weight, t.request.Weight)
		r.Mark, r.Reserve = min(r.Mark, t.request.Mark), min(r.Reserve, t.request.Reserve)
	}
	t.request = r
}
