package goredis

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// Renew extends leases in one pipeline, over the engine's own connections; see
// engine.Engine.
func (e *Engine) Renew(ctx context.Context, all []engine.Renewal) []error {
	errs := make([]error, len(all))
	if e.broken != nil {
		for i := range errs {
			errs[i] = e.broken
		}
		return errs
	}
	e.follow(ctx)
	rdb := e.own.client()
	if e.joins(rdb, len(all)) {
		if left := e.renewMerged(ctx, rdb, all, errs); len(left) > 0 {
			e.renewEach(ctx, rdb, all, left, errs)
		}
	} else {
		each := make([]int, len(all))
		for i := range each {
			each[i] = i
		}
		e.renewEach(ctx, rdb, all, each, errs)
	}
	e.describeAgain(rdb, all)
	return errs
}

// joins reports whether renewals are merged. They are not in a cluster, where each lease has
// its own slot, nor with replicas, which confirm each call.
func (e *Engine) joins(rdb redis.UniversalClient, renewals int) bool {
	_, cluster := rdb.(*redis.ClusterClient)
	return renewals > minMergedRenewals && !cluster && e.options.replicas.n == 0
}

// renewEach makes a call for each of some renewals and stores the outcomes in errs.
func (e *Engine) renewEach(ctx context.Context, rdb redis.UniversalClient, all []engine.Renewal, some []int, errs []error) {
	calls := make([]script.Call, 0, len(some))
	at := make([]int, 0, len(some)) // the renewal of each call
	for _, i := range some {
		r := &all[i]
		keys, err := renewable(r)
		if err != nil {
			errs[i] = err
			continue
		}
		calls = append(calls, e.scripts.Renew(keys, script.Renew{
			ID: r.ID, Token: r.Token, TTL: r.TTL,
		}))
		at = append(at, i)
		e.interests.need(keys, r.Resource, r.ID, r.TTL)
	}
	if len(calls) == 0 {
		return
	}
	var nodes sync.WaitGroup
	for _, group := range byNode(ctx, rdb, calls) {
		renew := func() {
			for n, err := range e.renewPart(ctx, rdb, pick(calls, group)) {
				errs[at[group[n]]] = err
			}
		}
		if len(group) == len(calls) {
			renew()
		} else {
			nodes.Go(renew)
		}
	}
	nodes.Wait()
}

// renewable returns the keys of a renewal, or an error if it is invalid.
func renewable(r *engine.Renewal) (script.Keys, error) {
	if err := checkTTL(r.TTL); err != nil {
		return script.Keys{}, err
	}
	return keysOf(r.Resource)
}

func pick(calls []script.Call, which []int) []script.Call {
	if len(which) == len(calls) {
		return calls
	}
	some := make([]script.Call, len(which))
	for n, i := range which {
		some[n] = calls[i]
	}
	return some
}

// renewPart makes calls to one node and returns their errors.
func (e *Engine) renewPart(ctx context.Context, rdb redis.UniversalClient, calls []script.Call) []error {
	replies, err := e.sendRenewals(ctx, rdb, calls)
	errs := make([]error, len(calls))
	for n := range errs {
		if err == nil {
			replies[n].value = e.clearRest(calls[n].Keys(), replies[n].value)
			errs[n] = e.renewed(ctx, replies[n])
		} else {
			errs[n] = e.classify(ctx, err)
		}
		noticed(rdb, errs[n])
		noticed(e.rdb, errs[n])
	}
	return errs
}

// sendRenewals makes calls within ctx.
func (e *Engine) sendRenewals(ctx context.Context, rdb redis.UniversalClient, calls []script.Call) ([]replicatedReply, error) {
	return bounded(e, ctx, func() ([]replicatedReply, error) { return e.renew(ctx, rdb, calls), nil })
}

// renew runs the calls over the engine's own connections.
func (e *Engine) renew(ctx context.Context, rdb redis.UniversalClient, calls []script.Call) (replies []replicatedReply) {
	e.sendOver(ctx, rdb, func(rdb redis.UniversalClient) error {
		replies = e.batch(ctx, rdb, calls)
		return replies[0].err
	})
	return replies
}

// sendOver calls send with rdb, the engine's own connections, and once more with others if they cannot be used.
func (e *Engine) sendOver(ctx context.Context, rdb redis.UniversalClient, send func(redis.UniversalClient) error) {
	switch err := e.because(ctx, send(rdb)); {
	case errors.Is(err, redis.ErrClosed):
		// The last client left meanwhile, which closed the own connections.
		_ = send(e.own.client())
	case isCode(err, "ERR max number of clients"):
		// The caller's client may have a connection already.
		_ = send(e.rdb)
	}
}

// batch runs renewals in one pipeline, and with WithReplicas waits for the replicas.
func (e *Engine) batch(ctx context.Context, rdb redis.UniversalClient, calls []script.Call) []replicatedReply {
	if e.options.replicas.n > 0 {
		return e.runReplicatedBatch(ctx, rdb, calls)
	}
	replies := make([]replicatedReply, len(calls))
	for i, r := range batch(ctx, rdb, calls) {
		replies[i].reply = r
	}
	return replies
}

func (e *Engine) renewed(ctx context.Context, v replicatedReply) error {
	if v.err != nil {
		return e.classify(ctx, v.err)
	}
	_, why, err := script.Renew{}.Read(v.value)
	if err := notHeld(why, err); err != nil {
		return err
	}
	return v.short
}

// describeAgain stores the descriptions of clients that only renew again before they expire.
// Failures are ignored: no lease depends on them.
func (e *Engine) describeAgain(rdb redis.UniversalClient, all []engine.Renewal) {
	before := ""
	for i := range all {
		prefix, id := all[i].Resource.Prefix, engine.ClientOf(all[i].ID)
		if i > 0 && all[i-1].Resource.Prefix == prefix && before == id {
			continue // usually all are of one client
		}
		before = id
		if c, due := e.clients.dueAgain(prefix, id); due {
			e.clients.wrote(prefix, id)
			e.aside(func(ctx context.Context) { _ = rdb.Process(ctx, describe(ctx, prefix, c)) })
		}
	}
}
