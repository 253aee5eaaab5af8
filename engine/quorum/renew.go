package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// leaseRenewal is the renewal of one lease.
type leaseRenewal struct {
	a   *attemptState
	t   *quorumLease
	ttl time.Duration
	tally
	err error // of findLease, or the outcome

	mu      sync.Mutex
	renewed bool // a majority has renewed the lease
	missing []missingLease
}

// Renew implements engine.Engine. A lease is renewed when a majority has extended
// it; nodes that do not have it do not count.
func (e *Engine) Renew(ctx context.Context, batch []engine.Renewal) []error {
	errs := make([]error, len(batch))
	if err := e.ready(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	all := make([]*leaseRenewal, len(batch))
	for i, r := range batch {
		x := &leaseRenewal{ttl: r.TTL}
		x.a, x.t, x.err = e.findLease(ctx, r.Resource, r.Held)
		all[i] = x
	}
	e.renewAll(ctx, all)
	for i, x := range all {
		errs[i] = x.err
	}
	return errs
}

func (e *Engine) renewOne(ctx context.Context, a *attemptState, t *quorumLease, ttl time.Duration) error {
	x := &leaseRenewal{a: a, t: t, ttl: ttl}
	e.renewAll(ctx, []*leaseRenewal{x})
	return x.err
}

// renewAll calls each node once for all leases, and returns when the outcome of each is final.
func (e *Engine) renewAll(ctx context.Context, all []*leaseRenewal) {
	var open []*leaseRenewal
	need := e.majority
	for _, x := range all {
		if x.err == nil {
			x.tally = tally{nodes: len(e.nodes), need: x.t.need}
			need = max(need, x.t.need)
			open = append(open, x)
		}
	}
	if len(open) == 0 {
		return
	}
	p := callNodes(ctx, e, open[0].t.clientID(), e.nodes, need, func(ctx context.Context, n *node) ([]error, error) {
		for _, x := range open {
			x.t.spreadTo(ctx, n)
		}
		sent, batch := make([]nodeLease, len(open)), make([]engine.Renewal, len(open))
		for i, x := range open {
			sent[i] = x.t.on(n)
			batch[i] = engine.Renewal{Resource: x.t.res, Held: sent[i].name, TTL: x.ttl}
		}
		errs := n.Renew(ctx, batch)
		for i, x := range open {
			x.record(n, sent[i], errs[i])
		}
		return errs, errs[0] // one answer is enough to judge the node's health
	}, nil)
	pending, answers := len(open), 0 // pending leases have no final outcome
	for r := range p.answers() {
		lost := false
		for i, x := range open {
			if x.final() {
				continue
			}
			err := r.err
			if r.value != nil { // nil: the node was not called
				err = r.value[i]
			}
			x.add(r.node, err)
			lost = lost || x.lost()
			if x.final() {
				pending--
			}
		}
		if r.err != errNotCalled {
			answers++
		}
		if pending == 0 {
			break
		}
		if lost || answers >= e.majority {
			p.startGrace()
		}
	}
	for _, x := range open {
		x.err = x.finish(ctx, p.sent)
	}
}

func (x *leaseRenewal) finish(ctx context.Context, sent time.Time) error {
	switch {
	case x.confirmed():
		x.a.extend(sent, x.ttl)
		x.mu.Lock()
		x.renewed = true
		x.restoreMissing()
		x.mu.Unlock()
	case x.lost():
		why := x.cause()
		x.a.end(*why)
		if why.Cause != engine.CauseBroken { // the holder releases a broken lease
			x.t.withdraw() // a minority may still have it
		}
	}
	return x.outcome(ctx, "renewed the lease")
}
