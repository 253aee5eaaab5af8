package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// extension is the renewal of one lease.
type extension struct {
	a   *attempt
	t   *round
	ttl time.Duration
	claim
	err error // why it cannot be asked for; in the end, the outcome

	mu        sync.Mutex
	confirmed bool
	missing   []miss // what nodes have said that they do not have
}

// Renew implements engine.Engine. A lease is renewed when a majority has extended
// it; nodes that do not have it do not count.
func (e *Engine) Renew(ctx context.Context, batch []engine.Renewal) []error {
	errs := make([]error, len(batch))
	if err := e.usable(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	all := make([]*extension, len(batch))
	for i, r := range batch {
		x := &extension{ttl: r.TTL}
		x.a, x.t, x.err = e.lease(ctx, r.Resource, r.Held)
		all[i] = x
	}
	e.extend(ctx, all)
	for i, x := range all {
		errs[i] = x.err
	}
	return errs
}

// renewOne extends one lease.
func (e *Engine) renewOne(ctx context.Context, a *attempt, t *round, ttl time.Duration) error {
	x := &extension{a: a, t: t, ttl: ttl}
	e.extend(ctx, []*extension{x})
	return x.err
}

// extend asks each node once for all leases, and returns when the outcome of each is
// sure.
func (e *Engine) extend(ctx context.Context, all []*extension) {
	var open []*extension
	need := e.majority
	for _, x := range all {
		if x.err == nil {
			x.claim = claim{nodes: len(e.nodes), need: x.t.need}
			need = max(need, x.t.need)
			open = append(open, x)
		}
	}
	if len(open) == 0 {
		return
	}
	p := begin(e, ctx, open[0].t.client(), e.pick(need), func(ctx context.Context, n *node) ([]error, error) {
		renewals, misses := make([]engine.Renewal, len(open)), make([]miss, len(open))
		for i, x := range open {
			misses[i] = x.t.look(n)
			renewals[i] = engine.Renewal{Resource: x.t.res, Held: misses[i].held, TTL: x.ttl}
		}
		errs := n.Renew(ctx, renewals)
		for i, x := range open {
			x.note(misses[i], errs[i])
		}
		return errs, errs[0] // for the node's health one tells as much as all
	})
	for unsure, replies := len(open), 0; unsure > 0; {
		r, ok := p.next()
		if !ok {
			break
		}
		lost := false
		for i, x := range open {
			if x.sure() {
				continue
			}
			err := r.err
			if r.value != nil { // else it was not asked
				err = r.value[i]
			}
			x.hear(r.node, err)
			lost = lost || x.lost()
			if x.sure() {
				unsure--
			}
		}
		if replies++; lost || replies >= e.majority {
			p.hurry()
		}
	}
	for _, x := range open {
		x.err = x.outcome(ctx, e, p.sent)
	}
}

func (x *extension) outcome(ctx context.Context, e *Engine, sent time.Time) error {
	switch {
	case x.held():
		x.a.mu.Lock()
		x.a.extend(sent, x.ttl)
		x.a.mu.Unlock()
		x.confirm()
		return nil
	case x.lost():
		why := x.why()
		x.a.end(why.Cause)
		if why.Cause != engine.CauseBroken { // then it is for its holder to release it
			x.t.giveUp() // a minority may still have it
		}
		return why
	}
	return shortfall(ctx, len(e.nodes), "renewed the lease", x.yes, x.need, x.bad)
}
