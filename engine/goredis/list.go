package goredis

import (
	"context"
	"iter"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

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
	ahead, cancel := context.WithCancel(ctx)
	pages := make(chan listed)
	var reader sync.WaitGroup
	var failed error // set before pages is closed
	reader.Go(func() {
		defer close(pages)
		failed = e.readPages(ahead, nodes, prefix, pattern, pages)
	})
	defer reader.Wait()
	defer cancel()
	for p := range pages {
		if ok, err := e.snapshots(ctx, prefix, p, wanted, yield); !ok || err != nil {
			return err
		}
	}
	return failed
}

// listed is a page of names, with the first part of the state of each.
type listed struct {
	names   []string
	keys    []script.Keys
	replies []reply
}

// readPages sends all pages. While the receiver decodes a page, the server works on the next.
func (e *Engine) readPages(ctx context.Context, nodes []redis.UniversalClient, prefix, pattern string, pages chan<- listed) error {
	seen := make(map[string]bool) // SCAN may show a key twice
	for _, node := range nodes {
		more := true
		for cursor := uint64(0); more; more = cursor != 0 {
			names, next, err := e.scan(ctx, node, prefix, pattern, cursor, seen)
			if err != nil {
				return err
			}
			cursor = next
			if len(names) == 0 {
				continue
			}
			p, err := e.readPage(ctx, prefix, names)
			if err != nil {
				return err
			}
			select {
			case pages <- p:
			case <-ctx.Done():
				return e.classify(ctx, ctx.Err())
			}
		}
	}
	return nil
}

// readPage reads the first part of each resource.
func (e *Engine) readPage(ctx context.Context, prefix string, names []string) (listed, error) {
	p := listed{names: names}
	var calls []script.Call
	for _, name := range names {
		keys, err := keysOf(engine.Resource{Prefix: prefix, Name: name})
		if err != nil {
			return p, err
		}
		p.keys = append(p.keys, keys)
		calls = append(calls, e.scripts.Snapshot(keys, firstPart()))
	}
	replies, err := bounded(e, ctx, func() ([]reply, error) { return batch(ctx, e.rdb, calls), nil })
	if err != nil {
		return p, e.classify(ctx, err)
	}
	p.replies = replies
	return p, nil
}

// firstPart reads the first part of one of many resources.
func firstPart() script.Snapshot {
	return script.Snapshot{Most: shortPart, WaiterLife: engine.WaiterLife}
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

// snapshots yields the wanted snapshots of a page. It returns false if the loop over them has ended.
func (e *Engine) snapshots(ctx context.Context, prefix string, p listed, wanted func(script.State) bool, yield func(engine.Snapshot) bool) (bool, error) {
	var used []string
	var states []script.State
	for i, r := range p.replies {
		if r.err != nil {
			return false, e.classify(ctx, r.err)
		}
		state, err := firstPart().Read(r.value)
		if err != nil {
			return false, unexpected(err)
		}
		if state.Rest != nil {
			if state, err = e.readState(ctx, p.keys[i], []script.State{state}, state.Rest); err != nil {
				return false, err
			}
		}
		state.Dead = nil
		if wanted(state) {
			used, states = append(used, p.names[i]), append(states, state)
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
