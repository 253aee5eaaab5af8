package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// longPart is how many entries of a line one script reads for one resource, at some 4 µs each, and
// shortPart how many it reads for each of many resources.
const (
	longPart  = 250
	shortPart = 20
)

// Snapshot returns the holders and waiters of a resource; see engine.Engine. It
// reads a long queue in parts, so that it does not block Redis.
func (e *Engine) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	keys, err := e.usable(res)
	if err != nil {
		return engine.Snapshot{}, err
	}
	state, err := e.readState(ctx, keys, nil, &script.Snapshot{Most: longPart, WaiterLife: engine.WaiterLife})
	if err != nil {
		return engine.Snapshot{}, err
	}
	found, err := e.resolve(ctx, res.Prefix, parties(state))
	if err != nil {
		return engine.Snapshot{}, err
	}
	return describeState(res, state, found), nil
}

// readState reads what follows on the first parts of a state.
func (e *Engine) readState(ctx context.Context, keys script.Keys, parts []script.State, rest *script.Snapshot) (script.State, error) {
	for rest != nil {
		rest.Most = longPart
		value, err := e.run(ctx, e.rdb, e.scripts.Snapshot(keys, *rest))
		if err != nil {
			return script.State{}, err
		}
		part, err := rest.Read(value)
		if err != nil {
			return script.State{}, unexpected(err)
		}
		parts, rest = append(parts, part), part.Rest
	}
	return script.Join(parts), nil
}

// Peek returns the state of a resource in brief; see engine.Engine.
func (e *Engine) Peek(ctx context.Context, res engine.Resource) (engine.Brief, error) {
	keys, err := e.usable(res)
	if err != nil {
		return engine.Brief{}, err
	}
	var holders []script.Holder
	for look := (script.Peek{Most: engine.MaxPeeked}); ; look.Most = longPart {
		value, err := e.run(ctx, e.rdb, e.scripts.Peek(keys, look))
		if err != nil {
			return engine.Brief{}, err
		}
		b, err := look.Read(value)
		if err != nil {
			return engine.Brief{}, unexpected(err)
		}
		holders = append(holders, b.Holders...)
		// Dead holders of a condition stay in the order until an operation ends
		// them.
		if b.More == "" || engine.Kind(b.Kind) != engine.KindCond || len(holders) >= engine.MaxPeeked {
			return brief(res, b, holders), nil
		}
		look.After = b.More
	}
}

func brief(res engine.Resource, b script.Brief, holders []script.Holder) engine.Brief {
	out := engine.Brief{
		Resource: res, Kind: engine.Kind(b.Kind), Capacity: b.Capacity, Token: b.Last, Marked: b.Marked,
		More: b.More != "" || len(holders) > engine.MaxPeeked, Waiting: b.Waiting,
	}
	for _, h := range holders[:min(len(holders), engine.MaxPeeked)] {
		out.Holders = append(out.Holders, engine.Holder{
			ID: h.ID, Client: engine.Client{ID: engine.ClientOf(h.ID)}, Reason: h.Reason, Weight: h.Weight,
			Token: h.Token, Since: h.Since, TTL: h.TTL, Breaking: h.Breaking,
		})
	}
	return out
}

// parties returns the IDs of all holders and waiters.
func parties(states ...script.State) (ids []string) {
	for _, s := range states {
		for _, h := range s.Holders {
			ids = append(ids, h.ID)
		}
		for _, w := range s.Waiters {
			ids = append(ids, w.ID)
		}
		for _, w := range s.Dead {
			ids = append(ids, w.ID)
		}
		if s.MarkedBy.ID != "" {
			ids = append(ids, s.MarkedBy.ID)
		}
	}
	return ids
}

// describeState converts a state, with the clients found for its parties.
func describeState(res engine.Resource, s script.State, found map[string]engine.Client) engine.Snapshot {
	snap := engine.Snapshot{Resource: res, Kind: engine.Kind(s.Kind), Capacity: s.Capacity, Token: s.Last, Marked: s.Marked}
	if s.MarkedBy.ID != "" {
		snap.MarkedBy = holder(s.MarkedBy, found)
	}
	for _, h := range s.Holders {
		snap.Holders = append(snap.Holders, holder(h, found))
	}
	for _, w := range s.Waiters {
		snap.Waiters = append(snap.Waiters, waiter(w, found))
	}
	for _, w := range s.Dead {
		dead := waiter(w, found)
		dead.Silent = w.Silent
		snap.Dead = append(snap.Dead, dead)
	}
	return snap
}

func waiter(w script.Waiter, found map[string]engine.Client) engine.Waiter {
	return engine.Waiter{ID: w.ID, Client: found[engine.ClientOf(w.ID)], Reason: w.Reason, Weight: w.Weight, Since: w.Since}
}

// Now returns the time of the Redis server, in a cluster that of any node; see
// engine.Engine.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if e.broken != nil {
		return time.Time{}, e.broken
	}
	now, err := bounded(e, ctx, func() (time.Time, error) {
		cb := e.batchers.single
		if cb == nil { // a cluster: any node may answer, so no pool is watched
			return e.own.client().Time(ctx).Result()
		}
		return through(ctx, e, cb.pool, func(ctx context.Context, rdb redis.UniversalClient) (time.Time, error) {
			return rdb.Time(ctx).Result()
		})
	})
	return now, e.classify(ctx, err)
}
