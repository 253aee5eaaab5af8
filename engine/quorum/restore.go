package quorum

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/engine"
)

// A node that was away may have lost the lease by its TTL, or with its data; another
// may have refused it to begin with. While a majority still has the lease, it is made
// anew there, so that nodes can be restarted one after the other under a lease that
// lasts. What is made anew does not count in the renewal that found it missing: it
// counts in later ones, since from then on nobody else can have it there.

// miss is what a node was asked about.
type miss struct {
	n    *node
	held engine.Held
	due  bool // it was still on its way there
}

// look returns what a renewal asks a node about.
func (t *round) look(n *node) miss {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.shares[n.index]
	return miss{n, s.name, s.at == asked}
}

// note takes in what a node answered, before or after the outcome. Of what was still
// on its way the answer says nothing.
func (x *extension) note(m miss, err error) {
	if err == nil {
		x.t.confirmed(m)
		return
	}
	var gone *engine.NotHeldError
	if m.due || !errors.As(err, &gone) || gone.Cause == engine.CauseBroken {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.confirmed {
		x.t.restore(m, x)
		return
	}
	x.missing = append(x.missing, m)
}

// confirmed notes that a node has the lease.
func (t *round) confirmed(m miss) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := &t.shares[m.n.index]; s.name == m.held {
		s.at, s.brief = s.at.after(shows), false
	}
	t.owe(m.n)
}

// confirm notes that a majority has the lease.
func (x *extension) confirm() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.confirmed = true
	for _, m := range x.missing {
		x.t.restore(m, x)
	}
}

// restore makes the lease anew on a node that does not have it, in the background,
// under a name of its own there, made of the token on that node: the node refuses the one
// that has ended. It may have been made anew since the node was asked.
func (t *round) restore(m miss, x *extension) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := m.n
	s := &t.shares[n.index]
	if t.req.ID == "" || t.over || s.at == asked || s.name != m.held {
		return
	}
	if s.at == unsure { // it could turn up beside the new one
		t.e.takeBack(n, t.client(), engine.Release{Resource: t.res, Held: s.name, Withdraw: true})
	}
	r := t.req
	r.Ballot, r.TTL, r.Reserve = t.e.tokens.next(t.res), x.ttl, 0
	r.ID, r.Turn = tryID(tryID(t.holder, t.token), r.Ballot), foremost
	s.at, s.name, s.weight, s.brief = s.at.after(asks), engine.Held{ID: r.ID, Token: r.Ballot}, r.Weight, false
	fan(context.Background(), t.e, t.client(), []*node{n}, 1, func(ctx context.Context, n *node) (engine.Answer, error) {
		a, err := n.Acquire(ctx, r)
		if err != nil || a.Status != engine.Marked || r.Mark == 0 {
			return a, err
		}
		// The lease ended there and its mark did not. The others have both.
		s, err := n.Snapshot(ctx, r.Resource)
		if err != nil || s.Token-m.held.Token > t.req.Reserve {
			return a, err
		}
		if err := n.Break(ctx, r.Resource, engine.Break{ID: engine.MarkID}); unavailable(err) {
			return a, err
		}
		return n.Acquire(ctx, r)
	}, t.restored)
}

// restored takes in the answer of the node. A later renewal tries again.
func (t *round) restored(n *node, a engine.Answer, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && a.Status == engine.Outbid {
		t.e.tokens.heard(t.res, a.Last)
	}
	t.answer(n, a, err)
}
