package quorum

import (
	"context"

	"github.com/holdfast-go/holdfast/engine"
)

// lease finds the lease that a party means: by the tries of this process, or by
// asking the nodes, since it may have been taken by another process. One that is
// found nowhere is asked for by the names that it would have. So is one that waits in
// this process: what nodes have of it are tries, which are given back at any moment.
func (e *Engine) lease(ctx context.Context, res engine.Resource, h engine.Held) (*attempt, *round, error) {
	k := key{res, h.ID}
	a := e.attempts.find(k)
	if a != nil {
		a.mu.Lock()
		t, waits := a.lease, a.waits
		a.mu.Unlock()
		switch {
		case t != nil:
			return a, t, nil
		case waits && h.Token == 0:
			return &attempt{}, e.guess(res, h), nil
		}
	}
	t, err := e.recall(ctx, res, h)
	if err != nil {
		return nil, nil, err
	}
	if t == nil {
		return &attempt{}, e.guess(res, h), nil
	}
	if a == nil {
		a = e.attempts.open(k)
		a.mu.Lock()
		a.lease = t
		a.mu.Unlock()
		return a, t, nil
	}
	return &attempt{}, t, nil
}

// guess is a lease of which nothing is known but its holder ID and token.
func (e *Engine) guess(res engine.Resource, h engine.Held) *round {
	t := &round{e: e, res: res, holder: h.ID, token: h.Token, need: e.majority}
	for range e.nodes {
		t.shares = append(t.shares, share{at: held, name: engine.Held{ID: tryID(h.ID, h.Token), Token: h.Token}})
	}
	return t
}

// recall looks for a holder ID on the nodes. It returns nil if it is on none. The
// token may be one that was reserved with the lease's own.
func (e *Engine) recall(ctx context.Context, res engine.Resource, h engine.Held) (*round, error) {
	s, err := e.survey(ctx, engine.ClientOf(h.ID), whole(res))
	if err != nil {
		return nil, err
	}
	t := e.guess(res, h)
	found := map[uint64]int{}
	for _, one := range s {
		for _, holder := range one.snap.Holders {
			if id, token := parseTry(holder.ID); id == h.ID && token <= max(h.Token, 1) || id == h.ID && h.Token == 0 {
				found[token]++
			}
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	if found[h.Token] == 0 { // an earlier try may have left something, on fewer nodes
		for token, nodes := range found {
			if most := found[t.token]; nodes > most || nodes == most && token > t.token {
				t.token = token
			}
		}
	}
	for i := range e.nodes {
		t.shares[i] = share{at: unsure, name: engine.Held{ID: tryID(h.ID, t.token), Token: t.token}}
	}
	for _, one := range s {
		share := &t.shares[one.node.index]
		share.at = absent
		for _, holder := range one.snap.Holders {
			if id, token := parseTry(holder.ID); id == h.ID && token == t.token {
				share.at, share.name, share.weight = held, engine.Held{ID: holder.ID, Token: holder.Token}, holder.Weight
				t.need = e.needed(one.snap.Kind, one.snap.Capacity)
				t.asksFor(one.snap, holder)
			}
		}
	}
	return t, nil
}

// asksFor makes the request that a lease of another process was granted for, as one node
// shows it, so that it can be made anew where it is missing. Of nodes that show different
// weights the least counts: weights only go down. With a capacity of 1 nobody but the lease
// can have marked the resource.
func (t *round) asksFor(s engine.Snapshot, h engine.Holder) {
	r := engine.Request{
		Resource: t.res, ID: t.holder, Client: &h.Client, Kind: s.Kind, Capacity: s.Capacity,
		Weight: h.Weight, Reason: h.Reason,
	}
	if s.Capacity == 1 && s.Token >= h.Token {
		r.Mark, r.Reserve = s.Marked, s.Token-h.Token
	}
	if t.req.ID != "" {
		r.Weight = min(r.Weight, t.req.Weight)
		r.Mark, r.Reserve = min(r.Mark, t.req.Mark), min(r.Reserve, t.req.Reserve)
	}
	t.req = r
}
