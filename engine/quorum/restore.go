package quorum

import (
	"context"
	"errors"
	"strconv"

	"github.com/holdfast-go/holdfast/engine"
)

// A node that was away may have lost the lease by its TTL, or with its data; another
// may have refused it to begin with. While a majority still has the lease, it is made
// anew there, so that nodes can be restarted one after the other under a lease that
// lasts. What is made anew does not count in the renewal that found it missing: it
// counts in later ones, since from then on nobody else can have it there.

// note takes in what a node answered, before or after the outcome.
func (x *extension) note(n *node, err error) {
	var gone *engine.NotHeldError
	if !errors.As(err, &gone) || gone.Cause == engine.CauseBroken {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.confirmed {
		x.t.restore(n, x)
		return
	}
	x.missing = append(x.missing, n)
}

// confirm notes that a majority has the lease.
func (x *extension) confirm() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.confirmed = true
	for _, n := range x.missing {
		x.t.restore(n, x)
	}
}

// restore makes the lease anew on a node that does not have it, in the background,
// under a name of its own there: the node refuses the one that has ended.
func (t *round) restore(n *node, x *extension) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.at[n.index]
	if t.req.ID == "" || t.over || was == asked {
		return
	}
	if was == unsure {
		t.clear(n) // or it could turn up beside the new one
	}
	t.made++
	r := t.req
	r.ID = tryID(t.holder, t.token) + tryMark + strconv.Itoa(t.made)
	r.Ballot, r.TTL, r.Reserve = t.e.tokens.next(t.res), x.ttl, 0
	t.at[n.index], t.there[n.index] = asked, engine.Held{ID: r.ID, Token: r.Ballot}
	fan(context.Background(), t.e, t.client(), []*node{n}, 1, func(ctx context.Context, n *node) (engine.Answer, error) {
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
	due := t.at[n.index] == asked
	switch {
	case !due: // the lease was given back meanwhile
	case err == nil && a.Status == engine.Granted:
		t.at[n.index] = held
	case unavailable(err):
		t.at[n.index] = unsure
	default:
		t.at[n.index] = absent
	}
	t.follow(n, due)
}
