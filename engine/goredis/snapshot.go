package goredis

import (
	"context"
	"iter"
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

// page is how many resources List reads in one round trip.
const page = 100

// List yields a snapshot of every resource in use; see engine.Engine. It scans
// all keys of the store without blocking it: its cost grows with all keys, not
// with those that match. A resource whose use begins or ends meanwhile may be
// missed.
func (e *Engine) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		if err := e.list(ctx, prefix, pattern, inUse, func(s engine.Snapshot) bool { return yield(s, nil) }); err != nil {
			yield(engine.Snapshot{}, err)
		}
	}
}

// ListMarks implements engine.MarkLister. It costs what List does.
func (e *Engine) ListMarks(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		if err := e.list(ctx, prefix, pattern, isMarked, func(s engine.Snapshot) bool { return yield(s, nil) }); err != nil {
			yield(engine.Snapshot{}, err)
		}
	}
}

func inUse(s script.State) bool { return len(s.Holders)+len(s.Waiters) > 0 }

func isMarked(s script.State) bool { return s.Marked > 0 }

func (e *Engine) list(ctx context.Context, prefix, pattern string, wanted func(script.State) bool, yield func(engine.Snapshot) bool) error {
	if e.broken != nil {
		return e.broken
	}
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	nodes, err := bounded(e, ctx, func() ([]redis.UniversalClient, error) { return masters(ctx, e.rdb) })
	if err != nil {
		return e.classify(ctx, err)
	}
	seen := make(map[string]bool) // SCAN may show a key twice
	for _, node := range nodes {
		more := true
		for cursor := uint64(0); more; {
			var names []string
			if names, cursor, err = e.scan(ctx, node, prefix, pattern, cursor, seen); err != nil {
				return err
			}
			if ok, err := e.snapshots(ctx, prefix, names, wanted, yield); !ok || err != nil {
				return err
			}
			more = cursor != 0
		}
	}
	return nil
}

// masters returns the clients that together have every key.
func masters(ctx context.Context, rdb redis.UniversalClient) ([]redis.UniversalClient, error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return []redis.UniversalClient{rdb}, nil
	}
	found := make(chan redis.UniversalClient)
	done := make(chan error, 1)
	go func() {
		done <- cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
			found <- c
			return nil
		})
		close(found)
	}()
	var nodes []redis.UniversalClient
	for c := range found {
		nodes = append(nodes, c)
	}
	return nodes, <-done
}

// scan returns the names on one page of keys that match and are not in seen.
func (e *Engine) scan(ctx context.Context, node redis.UniversalClient, prefix, pattern string, cursor uint64, seen map[string]bool) ([]string, uint64, error) {
	type found struct {
		keys []string
		next uint64
	}
	got, err := bounded(e, ctx, func() (found, error) {
		// The type excludes other values under a resource's name.
		keys, next, err := node.ScanType(ctx, cursor, glob(prefix, pattern), page, "hash").Result()
		return found{keys, next}, err
	})
	if err != nil {
		return nil, 0, e.classify(ctx, err)
	}
	var names []string
	for _, key := range got.keys {
		name, ok := nameOf(prefix, key)
		if ok && !seen[name] && engine.Match(pattern, name) {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names, got.next, nil
}

// snapshots yields the wanted snapshots of the names. It returns false if the loop over them has
// ended.
func (e *Engine) snapshots(ctx context.Context, prefix string, names []string, wanted func(script.State) bool, yield func(engine.Snapshot) bool) (bool, error) {
	var calls []script.Call
	var all []script.Keys
	look := script.Snapshot{Most: shortPart, WaiterLife: engine.WaiterLife}
	for _, name := range names {
		keys, err := keysOf(engine.Resource{Prefix: prefix, Name: name})
		if err != nil {
			return false, err
		}
		all = append(all, keys)
		calls = append(calls, e.scripts.Snapshot(keys, look))
	}
	if len(calls) == 0 {
		return true, nil
	}
	replies, err := bounded(e, ctx, func() ([]reply, error) { return batch(ctx, e.rdb, calls), nil })
	if err != nil {
		return false, e.classify(ctx, err)
	}
	var used []string
	var states []script.State
	for i, r := range replies {
		if r.err != nil {
			return false, e.classify(ctx, r.err)
		}
		state, err := look.Read(r.value)
		if err != nil {
			return false, unexpected(err)
		}
		if state.Rest != nil {
			if state, err = e.readState(ctx, all[i], []script.State{state}, state.Rest); err != nil {
				return false, err
			}
		}
		state.Dead = nil
		if wanted(state) {
			used, states = append(used, names[i]), append(states, state)
		}
	}
	found, err := e.resolve(ctx, prefix, parties(states...)) // for a whole page
	if err != nil {
		return false, err
	}
	for i, name := range used {
		if !yield(describeState(engine.Resource{Prefix: prefix, Name: name}, states[i], found)) {
			return false, nil
		}
	}
	return true, nil
}
