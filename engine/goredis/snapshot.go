package goredis

import (
	"context"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// Snapshot tells who holds and who waits; see engine.Engine.
func (e *Engine) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	keys, err := e.usable(res)
	if err != nil {
		return engine.Snapshot{}, err
	}
	value, err := e.run(ctx, e.rdb, e.scripts.Snapshot(keys, snapshotArgs()))
	if err != nil {
		return engine.Snapshot{}, err
	}
	state, err := snapshotArgs().Read(value)
	if err != nil {
		return engine.Snapshot{}, unexpected(err)
	}
	return e.describeState(ctx, res, state)
}

func snapshotArgs() script.Snapshot { return script.Snapshot{WaiterLife: engine.WaiterLife} }

// describeState adds to a state who the parties are.
func (e *Engine) describeState(ctx context.Context, res engine.Resource, s script.State) (engine.Snapshot, error) {
	ids := make([]string, 0, len(s.Holders)+len(s.Waiters))
	for _, h := range s.Holders {
		ids = append(ids, h.ID)
	}
	for _, w := range s.Waiters {
		ids = append(ids, w.ID)
	}
	found, err := e.resolve(ctx, res.Prefix, ids)
	if err != nil {
		return engine.Snapshot{}, err
	}
	snap := engine.Snapshot{Resource: res, Kind: engine.Kind(s.Kind), Capacity: s.Capacity, Token: s.Last, Marked: s.Marked}
	for _, h := range s.Holders {
		snap.Holders = append(snap.Holders, holder(h, found))
	}
	for _, w := range s.Waiters {
		snap.Waiters = append(snap.Waiters, engine.Waiter{
			ID: w.ID, Client: found[engine.ClientOf(w.ID)], Reason: w.Reason, Weight: w.Weight, Since: w.Since,
		})
	}
	return snap, nil
}

// Now reads the clock of Redis; see engine.Engine. In a cluster it is that of
// any node.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if e.broken != nil {
		return time.Time{}, e.broken
	}
	now, err := bounded(e, ctx, func() (time.Time, error) { return e.rdb.Time(ctx).Result() })
	return now, classify(ctx, err)
}

// page is how many resources List looks at in one round trip.
const page = 100

// List yields a snapshot of every resource in use; see engine.Engine. It scans
// all keys of the store without blocking it: the cost grows with all keys, not
// with those that match. What begins or ends meanwhile may be missed.
func (e *Engine) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		if err := e.list(ctx, prefix, pattern, func(s engine.Snapshot) bool { return yield(s, nil) }); err != nil {
			yield(engine.Snapshot{}, err)
		}
	}
}

func (e *Engine) list(ctx context.Context, prefix, pattern string, yield func(engine.Snapshot) bool) error {
	if e.broken != nil {
		return e.broken
	}
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	nodes, err := bounded(e, ctx, func() ([]redis.UniversalClient, error) { return masters(ctx, e.rdb) })
	if err != nil {
		return classify(ctx, err)
	}
	seen := make(map[string]bool) // SCAN may show a key twice
	for _, node := range nodes {
		more := true
		for cursor := uint64(0); more; {
			var names []string
			if names, cursor, err = e.scan(ctx, node, prefix, pattern, cursor, seen); err != nil {
				return err
			}
			if ok, err := e.snapshots(ctx, prefix, names, yield); !ok || err != nil {
				return err
			}
			more = cursor != 0
		}
	}
	return nil
}

// masters returns the clients that together see every key.
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

// scan returns the names on one page of keys that match and were not seen yet.
func (e *Engine) scan(ctx context.Context, node redis.UniversalClient, prefix, pattern string, cursor uint64, seen map[string]bool) ([]string, uint64, error) {
	type found struct {
		keys []string
		next uint64
	}
	got, err := bounded(e, ctx, func() (found, error) {
		// The type keeps out foreign values under a resource's name.
		keys, next, err := node.ScanType(ctx, cursor, glob(prefix, pattern), page, "hash").Result()
		return found{keys, next}, err
	})
	if err != nil {
		return nil, 0, classify(ctx, err)
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

// snapshots yields those of the names that are in use. It returns false if the
// consumer wants no more.
func (e *Engine) snapshots(ctx context.Context, prefix string, names []string, yield func(engine.Snapshot) bool) (bool, error) {
	var calls []script.Call
	for _, name := range names {
		keys, err := keysOf(engine.Resource{Prefix: prefix, Name: name})
		if err != nil {
			return false, err
		}
		calls = append(calls, e.scripts.Snapshot(keys, snapshotArgs()))
	}
	if len(calls) == 0 {
		return true, nil
	}
	replies, err := bounded(e, ctx, func() ([]reply, error) { return batch(ctx, e.rdb, calls), nil })
	if err != nil {
		return false, classify(ctx, err)
	}
	for i, r := range replies {
		if r.err != nil {
			return false, classify(ctx, r.err)
		}
		state, err := snapshotArgs().Read(r.value)
		if err != nil {
			return false, unexpected(err)
		}
		if len(state.Holders)+len(state.Waiters) == 0 {
			continue
		}
		snap, err := e.describeState(ctx, engine.Resource{Prefix: prefix, Name: names[i]}, state)
		if err != nil {
			return false, err
		}
		if !yield(snap) {
			return false, nil
		}
	}
	return true, nil
}
