package goredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// poolLook is how often a poolWatch checks the pool while calls are in flight. A call
	// waits for a connection of the caller's pool for at most twice that time.
	poolLook = 25 * time.Millisecond
	// poolRest is how long a pool without a free connection is not used.
	poolRest = time.Second
)

// poolWatch bounds how long calls wait for a connection of the caller's pool to one server,
// since other users may keep all of them for long. A call that gets no connection in time was
// not sent, and is made over the engine's own connections. So are the calls after it, for
// poolRest.
//
// A call that gets a connection costs two atomic additions; all calls share one timer.
type poolWatch struct {
	node *redis.Client // whose pool it is

	turn       atomic.Uint32   // which of calls counts new calls
	calls      [2]atomic.Int32 // calls in flight; those of the other count began before the last look but one
	looking    atomic.Bool     // a look is scheduled
	avoidUntil atomic.Int64    // the pool is not used until then: nanoseconds since epoch
	epoch      time.Time

	mu     sync.Mutex
	timer  *time.Timer
	ctx    context.Context // the ctx of calls that wait for a connection
	cancel context.CancelFunc
}

func newPoolWatch(node *redis.Client) *poolWatch {
	w := &poolWatch{node: node, epoch: time.Now()}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// pooledCall is a call that uses the caller's pool.
type pooledCall struct {
	turn uint32
	ctx  context.Context // ends if the pool has no free connection
}

// enter begins a call. It returns false if the pool is not used for now. A nil poolWatch
// admits every call.
func (w *poolWatch) enter() (v pooledCall, ok bool) {
	if w == nil {
		return pooledCall{ctx: context.Background()}, true
	}
	if rest := w.avoidUntil.Load(); rest > 0 {
		if int64(time.Since(w.epoch)) < rest {
			return pooledCall{}, false
		}
		w.avoidUntil.Store(0)
	}
	v.turn = w.turn.Load() & 1
	w.calls[v.turn].Add(1)
	w.mu.Lock()
	v.ctx = w.ctx
	if !w.looking.Load() {
		w.arm()
	}
	w.mu.Unlock()
	return v, true
}

// leave ends a call.
func (w *poolWatch) leave(v pooledCall) {
	if w != nil {
		w.calls[v.turn].Add(-1)
	}
}

// unsent reports whether a call with an error got no connection, so it was not sent. In a pipeline some calls
// may be unsent: one that is made again, alone, needs a connection of its own.
func (v pooledCall) unsent(err error) bool {
	return noConn(err) || v.ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// noConn reports whether err is the pool's own error that it has no free connection.
func noConn(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted))
}

// arm schedules the next look. The mutex is held.
func (w *poolWatch) arm() {
	w.looking.Store(true)
	if w.timer == nil {
		w.timer = time.AfterFunc(poolLook, w.look)
	} else {
		w.timer.Reset(poolLook)
	}
}

// look ends the wait of calls for a connection if a call was already in flight at the last
// look and the pool has no free connection. A call that has a connection continues: go-redis
// checks ctx only while it waits for the pool.
func (w *poolWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	turn := w.turn.Load()
	old := w.calls[(turn+1)&1].Load()
	switch {
	case old == 0:
		w.turn.Store(turn + 1) // calls in flight now are the old ones at the next look
	case starved(w.node):
		w.avoidUntil.Store(int64(time.Since(w.epoch) + poolRest))
		w.cancel()
		w.ctx, w.cancel = context.WithCancel(context.Background())
	}
	if w.calls[0].Load()+w.calls[1].Load() > 0 {
		w.arm()
	} else {
		w.looking.Store(false)
	}
}

// starved reports whether calls wait for a connection of a pool that has none.
func starved(node *redis.Client) bool {
	s, o := node.PoolStats(), node.Options()
	size := o.PoolSize
	if o.MaxActiveConns > 0 {
		size = min(size, o.MaxActiveConns)
	}
	return s.PendingRequests > 0 && s.IdleConns == 0 && int(s.TotalConns) >= size
}

// outside returns the client of the own connections to the current master.
func (e *Engine) outside(ctx context.Context) redis.UniversalClient {
	e.follow(ctx)
	return e.own.client()
}

// through makes a call over the caller's pool, or over the own connections if the pool has no
// free one.
func through[T any](ctx context.Context, e *Engine, w *poolWatch, send func(context.Context, redis.UniversalClient) (T, error)) (T, error) {
	v, ok := w.enter()
	if ok {
		within, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(v.ctx, cancel)
		value, err := send(within, e.rdb)
		stop()
		cancel()
		w.leave(v)
		if !v.unsent(err) || ctx.Err() != nil {
			return value, err
		}
	}
	return send(ctx, e.outside(ctx))
}

// poolOf returns the poolWatch of the server that has a key, or nil if that is unknown.
func (cs *batchers) poolOf(ctx context.Context, key string) *poolWatch {
	if cb := cs.of(ctx, key); cb != nil {
		return cb.pool
	}
	return nil
}
