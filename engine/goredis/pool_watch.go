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
	// poolLook is how often a poolWatch looks while calls are under way. A call waits
	// for a connection of the caller's pool for two such spans at most.
	poolLook = 25 * time.Millisecond
	// poolRest is how long a pool without a connection to give is left alone.
	poolRest = time.Second
)

// poolWatch keeps calls from waiting for a connection of the caller's pool to one server,
// since other users may keep all of them for long. A call that gets no connection in time
// was not sent, and goes over the engine's own connections; so do those after it, for a
// while.
//
// It costs a call that gets a connection two atomic additions; all calls share one timer
// of 25 ms.
type poolWatch struct {
	node *redis.Client // whose pool it is

	turn       atomic.Uint32   // which count new calls are in
	calls      [2]atomic.Int32 // under way; those of the other count began before the last look but one
	looking    atomic.Bool     // a look is due
	avoidUntil atomic.Int64    // until then the pool is left alone: nanoseconds since epoch
	epoch      time.Time

	mu     sync.Mutex
	timer  *time.Timer
	ctx    context.Context // under which calls wait for a connection
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
	ctx  context.Context // ends if the pool has no connection to give
}

// enter begins a call, unless the pool is avoided. A nil poolWatch admits every call.
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

// leave ends a call. It returns true if it found no connection, and so was not sent.
func (w *poolWatch) leave(v pooledCall, err error) (none bool) {
	if w == nil {
		return noConn(err)
	}
	w.calls[v.turn].Add(-1)
	return noConn(err) || v.ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// noConn tells whether the pool says by itself that it has no connection.
func noConn(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted))
}

// arm makes the next look due. The mutex is held.
func (w *poolWatch) arm() {
	w.looking.Store(true)
	if w.timer == nil {
		w.timer = time.AfterFunc(poolLook, w.look)
	} else {
		w.timer.Reset(poolLook)
	}
}

// look ends the wait of calls for a connection if one has waited since the last
// look and there is none. A call that has its connection goes on: go-redis looks
// at the end of a ctx only where it waits for the pool.
func (w *poolWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	turn := w.turn.Load()
	old := w.calls[(turn+1)&1].Load()
	switch {
	case old == 0:
		w.turn.Store(turn + 1) // those of now are the old ones of the next look
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

// starved tells whether calls wait for a connection of a pool that has none.
func starved(node *redis.Client) bool {
	s, o := node.PoolStats(), node.Options()
	size := o.PoolSize
	if o.MaxActiveConns > 0 {
		size = min(size, o.MaxActiveConns)
	}
	return s.PendingRequests > 0 && s.IdleConns == 0 && int(s.TotalConns) >= size
}

// outside returns the client of the own connections, which go to the present
// master.
func (e *Engine) outside(ctx context.Context) redis.UniversalClient {
	e.follow(ctx)
	return e.own.client()
}

// through makes a call over the caller's pool, or over own connections if that has
// none to give.
func through[T any](ctx context.Context, e *Engine, w *poolWatch, send func(context.Context, redis.UniversalClient) (T, error)) (T, error) {
	v, ok := w.enter()
	if ok {
		within, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(v.ctx, cancel)
		value, err := send(within, e.rdb)
		stop()
		cancel()
		if none := w.leave(v, err); !none || ctx.Err() != nil {
			return value, err
		}
	}
	return send(ctx, e.outside(ctx))
}

// poolOf returns the poolWatch of the server that a call goes to, or nil if that is not
// known yet.
func (cs *batchers) poolOf(ctx context.Context, key string) *poolWatch {
	if cb := cs.of(ctx, key); cb != nil {
		return cb.pool
	}
	return nil
}
