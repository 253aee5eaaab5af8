package goredis

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// batchers has the batcher of a single Redis, or one for each master of a cluster: no call
// waits for another master's. Only while go-redis still calls the wrong master, or a slot
// moves, may a batch be redirected to a second one and wait for it, as renewals do.
type batchers struct {
	engine  *Engine
	single  *batcher             // nil: a cluster, or nothing is combined
	cluster *redis.ClusterClient // nil: no cluster
	// known: go-redis knows who has which slot, so that to ask it is no call,
	// which the ctx of the caller could not end.
	known atomic.Bool

	mu       sync.RWMutex
	byMaster map[*redis.Client]*batcher
}

// open tells for which client calls are combined.
func (cs *batchers) open(e *Engine) {
	cs.engine = e
	switch c := e.rdb.(type) {
	case *redis.Client:
		if c != nil {
			cs.single = newBatcher(c, c, e)
			cs.single.merger = &merger{scripts: e.scripts}
		}
	case *redis.ClusterClient:
		cs.cluster = c
		cs.byMaster = map[*redis.Client]*batcher{}
	}
}

// learned notes that a call of the cluster was answered.
func (cs *batchers) learned() {
	if cs.cluster != nil && !cs.known.Load() {
		cs.known.Store(true)
	}
}

// of returns who sends a call about a key, or nil for a call that goes by itself.
func (cs *batchers) of(ctx context.Context, key string) *batcher {
	if cs.single != nil || !cs.known.Load() {
		return cs.single
	}
	master, err := cs.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil // go-redis will say why
	}
	cs.mu.RLock()
	cb := cs.byMaster[master]
	cs.mu.RUnlock()
	if cb != nil {
		return cb
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cb = cs.byMaster[master]; cb == nil {
		// Some of the others may be of masters that are gone. One that is dropped
		// while a call is about to use it still sends that call.
		maps.DeleteFunc(cs.byMaster, func(_ *redis.Client, other *batcher) bool { return other.idle() })
		cb = newBatcher(cs.cluster, master, cs.engine)
		cs.byMaster[master] = cb
	}
	return cb
}
