package goredis

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

// batchers has the batcher of a single Redis, or one for each master of a cluster, so that no
// call waits for a call to another master. While go-redis still calls the wrong master, or a
// slot moves, a batch may be redirected to a second master and wait for it, as renewals may.
type batchers struct {
	engine  *Engine
	single  *batcher             // nil: a cluster, or calls are not batched
	cluster *redis.ClusterClient // nil: no cluster
	// known is true once go-redis has the slots of the cluster. Before, MasterForKey makes
	// a call, which the caller's ctx cannot end.
	known atomic.Bool

	mu       sync.RWMutex
	byMaster map[*redis.Client]*batcher
}

// open sets the client whose calls are batched.
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

// BatchDepth implements engine.Batcher.
func (e *Engine) BatchDepth() (d engine.BatchDepth) {
	cs := &e.batchers
	if cs.single != nil {
		cs.single.addDepth(&d)
	}
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	for _, cb := range cs.byMaster {
		cb.addDepth(&d)
	}
	return d
}

// learned records that the cluster has answered a call.
func (cs *batchers) learned() {
	if cs.cluster != nil && !cs.known.Load() {
		cs.known.Store(true)
	}
}

// of returns the batcher for a key, or nil if the call is not batched.
func (cs *batchers) of(ctx context.Context, key string) *batcher {
	if cs.single != nil || !cs.known.Load() {
		return cs.single
	}
	master, err := cs.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil // the call returns the error
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
		// Some of the others may belong to former masters. A batcher that is removed
		// while a call is about to use it still sends that call.
		maps.DeleteFunc(cs.byMaster, func(_ *redis.Client, other *batcher) bool { return other.idle() })
		cb = newBatcher(cs.cluster, master, cs.engine)
		cs.byMaster[master] = cb
	}
	return cb
}
