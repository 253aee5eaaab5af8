package goredis

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// Renew extends leases in one pipeline, over the engine's own connections; see
// engine.Engine.
func (e *Engine) Renew(ctx context.Context, all []engine.Renewal) []error {
	errs := make([]error, len(all))
	calls := make([]script.Call, 0, len(all))
	at := make([]int, 0, len(all)) // which renewal each call is
	for i, r := range all {
		keys, err := e.renewable(r)
		if err != nil {
			errs[i] = err
			continue
		}
		calls = append(calls, e.scripts.Renew(keys, script.Renew{
			ID: r.ID, Token: r.Token, TTL: r.TTL,
		}))
		at = append(at, i)
		e.audience.attend(keys, r.Resource, r.ID, r.TTL)
	}
	if len(calls) == 0 {
		return errs
	}
	rdb := e.own.client()
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
	e.describeAgain(rdb, all)
	return errs
}

// renewable returns the keys of a renewal, or what is wrong with it.
func (e *Engine) renewable(r engine.Renewal) (script.Keys, error) {
	if e.broken != nil {
		return script.Keys{}, e.broken
	}
	if err := checkTTL(r.TTL); err != nil {
		return script.Keys{}, err
	}
	return e.keyring.seen(r.Resource)
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
	vows, err := bounded(e, ctx, func() ([]vow, error) { return e.renew(ctx, rdb, calls), nil })
	errs := make([]error, len(calls))
	for n := range errs {
		if err == nil {
			errs[n] = renewed(ctx, vows[n])
		} else {
			errs[n] = classify(ctx, err)
		}
		noticed(rdb, errs[n])
		noticed(e.rdb, errs[n])
	}
	return errs
}

// renew runs the calls over the engine's own connections.
func (e *Engine) renew(ctx context.Context, rdb redis.UniversalClient, calls []script.Call) []vow {
	vows := e.batch(ctx, rdb, calls)
	switch err := vows[0].err; {
	case errors.Is(err, redis.ErrClosed):
		// The last client left meanwhile, but somebody still renews.
		vows = e.batch(ctx, e.own.client(), calls)
	case isCode(err, "ERR max number of clients"):
		// The caller's client may have a connection already.
		vows = e.batch(ctx, e.rdb, calls)
	}
	return vows
}

// batch runs renewals in one pipeline, which asks for the replicas if it should.
func (e *Engine) batch(ctx context.Context, rdb redis.UniversalClient, calls []script.Call) []vow {
	if e.options.replicas.n > 0 {
		return e.pledge(ctx, rdb, calls)
	}
	run := batch
	if _, cluster := rdb.(*redis.ClusterClient); !cluster && len(calls) > fewRenewals {
		run = e.renewTogether
	}
	vows := make([]vow, len(calls))
	for i, r := range run(ctx, rdb, calls) {
		vows[i].reply = r
	}
	return vows
}

func renewed(ctx context.Context, v vow) error {
	if v.err != nil {
		return classify(ctx, v.err)
	}
	_, cause, err := script.Renew{}.Read(v.value)
	if err := notHeld(cause, err); err != nil {
		return err
	}
	return v.short
}

// describeAgain stores the descriptions of clients that only renew, before
// Redis forgets them. It concerns people, not leases: failures are ignored.
func (e *Engine) describeAgain(rdb redis.UniversalClient, all []engine.Renewal) {
	for i, r := range all {
		prefix, id := r.Resource.Prefix, engine.ClientOf(r.ID)
		if i > 0 && all[i-1].Resource.Prefix == prefix && engine.ClientOf(all[i-1].ID) == id {
			continue // usually all are one client's
		}
		if c, due := e.clients.dueAgain(prefix, id); due {
			e.clients.wrote(prefix, id)
			e.aside(func(ctx context.Context) { _ = rdb.Process(ctx, describe(ctx, prefix, c)) })
		}
	}
}
