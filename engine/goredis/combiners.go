package goredis

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// combiners has the combiner of a single Redis, or one for each master of a
// cluster: no call waits behind another master's. Only while go-redis still
// asks the wrong master, or a slot is on its way, may a batch be sent on to a
// second one and wait for it, as renewals do.
type combiners struct {
	engine  *Engine
	single  *combiner            // nil: a cluster, or nothing is combined
	cluster *redis.ClusterClient // nil: no cluster
	// known: go-redis knows who has which slot, so that to ask it is no call,
	// which the ctx of the caller could not end.
	known atomic.Bool

	mu       sync.RWMutex
	byMaster map[*redis.Client]*combiner
}

// open tells for which client calls are combined.
func (cs *combiners) open(e *Engine) {
	cs.engine = e
	switch c := e.rdb.(type) {
	case *redis.Client:
		if c != nil {
			cs.single = newCombiner(c, c, e)
			cs.single.union = &union{scripts: e.scripts}
		}
	case *redis.ClusterClient:
		cs.cluster = c
		cs.byMaster = map[*redis.Client]*combiner{}
	}
}

// learned notes that a call of the cluster was answered.
func (cs *combiners) learned() {
	if cs.cluster != nil && !cs.known.Load() {
		cs.known.Store(true)
	}
}

// of returns who sends a call about a key, or nil for a call that goes by itself.
func (cs *combiners) of(ctx context.Context, key string) *combiner {
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
		maps.DeleteFunc(cs.byMaster, func(_ *redis.Client, other *combiner) bool { return other.idle() })
		cb = newCombiner(cs.cluster, master, cs.engine)
		cs.byMaster[master] = cb
	}
	return cb
}
