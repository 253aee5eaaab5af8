package goredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// Renew extends leases in one pipeline, over the engine's own connections; see
// engine.Engine.
func (e *Engine) Renew(ctx context.Context, all []engine.Renewal) []error {
	errs := make([]error, len(all))
	var calls []script.Call
	var at []int // which renewal each call is
	for i, r := range all {
		keys, err := e.usable(r.Resource)
		if err == nil {
			err = checkTTL(r.TTL)
		}
		if err != nil {
			errs[i] = err
			continue
		}
		calls = append(calls, e.scripts.Renew(keys, script.Renew{
			ID: r.ID, Token: r.Token, TTL: r.TTL,
		}))
		at = append(at, i)
	}
	if len(calls) == 0 {
		return errs
	}
	replies, err := bounded(e, ctx, func() ([]reply, error) { return e.renew(ctx, calls, all), nil })
	for n, i := range at {
		if err != nil {
			errs[i] = classify(ctx, err)
			continue
		}
		errs[i] = renewed(ctx, replies[n])
	}
	return errs
}

// renew runs the calls over the engine's own connections.
func (e *Engine) renew(ctx context.Context, calls []script.Call, all []engine.Renewal) []reply {
	rdb := e.own.client()
	replies := batch(ctx, rdb, calls)
	switch err := replies[0].err; {
	case errors.Is(err, redis.ErrClosed):
		// The last client left meanwhile, but somebody still renews.
		rdb = e.own.client()
		replies = batch(ctx, rdb, calls)
	case isCode(err, "ERR max number of clients"):
		// The caller's client may have a connection already.
		rdb = e.rdb
		replies = batch(ctx, rdb, calls)
	}
	e.describeAgain(ctx, rdb, all)
	return replies
}

func renewed(ctx context.Context, r reply) error {
	if r.err != nil {
		return classify(ctx, r.err)
	}
	_, cause, err := script.Renew{}.Read(r.value)
	return notHeld(cause, err)
}

// describeAgain stores the descriptions of clients that only renew, before
// Redis forgets them. It concerns people, not leases: failures are ignored.
func (e *Engine) describeAgain(ctx context.Context, rdb redis.UniversalClient, all []engine.Renewal) {
	for _, r := range all {
		prefix, id := r.Resource.Prefix, engine.ClientOf(r.ID)
		if c, due := e.clients.dueAgain(prefix, id); due {
			e.clients.wrote(prefix, id)
			_ = rdb.Process(ctx, describe(ctx, prefix, c))
		}
	}
}
