package goredis

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// An Engine stores queues of leases in Redis. It is safe for concurrent use.
type Engine struct {
	rdb     redis.UniversalClient
	options options
	scripts *script.Set
	broken  error // why the engine cannot work; every call returns it

	workers   workers
	own       ownPool
	clients   clients
	interests interests
	reaches   func(prefix, id string) bool // whether the client of a holder ID listens, as far as is known here
	live      live
	clearer   clearer
	batchers  batchers
	diagnosis diagnosis
	noFsync   atomic.Bool // the server does not have WAITAOF
}

var _ engine.Recaller = (*Engine)(nil)

// New returns an engine on a go-redis client: a *redis.Client, also one for
// Sentinel, or a *redis.ClusterClient. The caller closes rdb, after the
// Holdfast clients. If rdb is nil or an option is invalid, holdfast.New and
// every call return an error.
func New(rdb redis.UniversalClient, opts ...Option) *Engine {
	o := options{retention: defaultRetention}
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	_, cluster := rdb.(*redis.ClusterClient)
	if cluster {
		fragments := script.ForCluster()
		maps.Copy(fragments, o.fragments)
		o.fragments = fragments
	}
	scripts, err := script.NewWith(o.retention, o.fragments)
	e := &Engine{rdb: rdb, options: o, scripts: scripts, workers: workers{jobs: make(chan func())}}
	e.reaches = e.live.has
	if cluster {
		e.reaches = func(string, string) bool { return true } // its scripts cannot look
	}
	e.own.base = rdb
	e.followed()
	e.batchers.open(e)
	if isNil(rdb) {
		err = errors.Join(err, errors.New("goredis: New: the redis client is nil"))
	}
	if err = errors.Join(err, o.check(rdb)); err != nil {
		e.broken = fmt.Errorf("%w: %w", engine.ErrDenied, err)
	}
	return e
}

// Check implements engine.Checker.
func (e *Engine) Check() error { return e.broken }

func isNil(rdb redis.UniversalClient) bool {
	switch c := rdb.(type) {
	case nil:
		return true
	case *redis.Client:
		return c == nil
	case *redis.ClusterClient:
		return c == nil
	case *redis.Ring:
		return c == nil
	}
	return false
}

// usable returns the keys of a resource, or the error that every call returns.
func (e *Engine) usable(r engine.Resource) (script.Keys, error) {
	if e.broken != nil {
		return script.Keys{}, e.broken
	}
	return keysOf(r)
}

// Leave discards what the engine keeps for a client. When the last client
// leaves, it closes the engine's own connections and waits for calls that were
// still running when their ctx ended: for the read timeout of the redis client,
// but at most 6 s. The engine can be used again.
func (e *Engine) Leave(client string) {
	e.clients.leave(client)
	if e.closeUnused() {
		e.workers.drain(leaveLimit)
		e.closeUnused() // a call that was still running, or the clearer, may have opened new ones
	}
}

// closeUnused closes the own connections if there is no client, and reports whether there is none.
func (e *Engine) closeUnused() bool {
	rdb, none := e.clients.unused(&e.own)
	if rdb != nil {
		_ = rdb.Close() // nothing depends on these connections any more
	}
	return none
}

// leaveLimit is a little more than the default read timeout of go-redis.
const leaveLimit = 6 * time.Second
