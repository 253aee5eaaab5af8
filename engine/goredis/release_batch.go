package goredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

var _ engine.BatchReleaser = (*Engine)(nil)

// ReleaseBatch releases leases in few calls, one pipeline for each node, over
// the engine's own connections; see engine.BatchReleaser.
func (e *Engine) ReleaseBatch(ctx context.Context, all []engine.Release) []error {
	errs := make([]error, len(all))
	calls := make([]script.Call, 0, len(all))
	at := make([]int, 0, len(all)) // the release of each call
	for i, r := range all {
		keys, err := e.usable(r.Resource)
		switch {
		case err != nil:
			errs[i] = err
		case r.Mark > 0: // replicas must confirm it
			errs[i] = e.Release(ctx, r)
		default:
			calls = append(calls, e.scripts.Release(keys, script.Release{ID: r.ID, Token: r.Token, Withdraw: r.Withdraw}))
			at = append(at, i)
		}
	}
	if len(calls) == 0 {
		return errs
	}
	rdb := e.own.client()
	var nodes sync.WaitGroup
	for _, group := range byNode(ctx, rdb, calls) {
		part := make([]int, len(group))
		for n, i := range group {
			part[n] = at[i]
		}
		nodes.Go(func() { e.releasePart(ctx, rdb, all, pick(calls, group), part, errs) })
	}
	nodes.Wait()
	return errs
}

// releasePart makes the calls to one node and stores the outcomes of their releases in errs.
func (e *Engine) releasePart(ctx context.Context, rdb redis.UniversalClient, all []engine.Release, calls []script.Call, at []int, errs []error) {
	var u *merger
	if cb := e.batchers.single; cb != nil {
		u = cb.merger
	}
	replies, err := bounded(e, ctx, func() (replies []reply, _ error) {
		e.sendOver(ctx, rdb, func(rdb redis.UniversalClient) error {
			replies = u.run(ctx, rdb, calls)
			return replies[0].err
		})
		return replies, nil
	})
	for n, i := range at {
		var value any
		failure := err
		if err == nil {
			value, failure = replies[n].value, replies[n].err
		}
		if failure != nil {
			noticed(rdb, failure)
			noticed(e.rdb, failure)
			errs[i] = e.classify(ctx, failure)
			continue
		}
		r, keys := &all[i], calls[n].Keys()
		e.interests.done(keys, r.Resource, r.ID)
		why, err := script.Release{Withdraw: r.Withdraw}.Read(e.clearRest(keys, value))
		errs[i] = notHeld(why, err)
	}
}
