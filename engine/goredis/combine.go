package goredis

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// lanes is how many calls or batches of calls are under way at a time before
// others are combined. Few make large batches, of which each call costs both
// sides a fraction of one that travels alone; more of them keep a call from
// waiting for a slow network: with four it waits a quarter of a round trip.
const lanes = 4

// mostCombined bounds a batch, so that the first of it does not wait long for
// the last.
const mostCombined = 128

// combiner sends calls of many goroutines in few pipelines. As long as a lane is
// free a call goes out at once, by itself: a single caller pays nothing. Else it
// waits, and goes with all others that wait as soon as a lane comes free.
//
// A call that ends by its ctx while it waits was never sent.
type combiner struct {
	rdb     redis.UniversalClient
	watch   *watch                                      // of the pool that its calls use
	outside func(context.Context) redis.UniversalClient // where calls go if that has no connection
	workers *workers
	union   *union // nil: each call of a batch is one of its own
	lanes   int
	errands sync.Pool // of *errand, to be used again

	mu    sync.Mutex
	busy  int       // lanes in use, a call that goes alone has one too
	line  []*errand // those who wait for a lane
	spare []*lane
}

// errand is a call that waits to be sent, or for its reply.
type errand struct {
	call  script.Call
	reply reply
	done  chan struct{}
}

// newCombiner returns a combiner for calls over rdb to the server of node.
func newCombiner(rdb redis.UniversalClient, node *redis.Client, e *Engine) *combiner {
	return &combiner{
		rdb: rdb, watch: newWatch(node), outside: e.outside, workers: &e.workers,
		lanes: min(lanes, node.Options().PoolSize),
	}
}

// idle tells whether nothing is under way.
func (cb *combiner) idle() bool {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	return cb.busy == 0
}

// run runs one script, together with those of others if many are under way.
func (cb *combiner) run(ctx context.Context, c script.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cb.mu.Lock()
	if cb.busy < cb.lanes && ctx.Done() == nil {
		cb.busy++
		cb.mu.Unlock()
		value, err := cb.process(ctx, c)
		cb.landed()
		return value, err
	}
	t := cb.join(c)
	l := cb.free()
	cb.mu.Unlock()
	if l != nil {
		cb.workers.do(l)
	}
	if !cb.await(ctx, t) {
		return nil, ctx.Err()
	}
	r := t.reply
	cb.keep(t)
	return r.value, r.err
}

// process makes one call. Its ctx has no end.
func (cb *combiner) process(ctx context.Context, c script.Call) (any, error) {
	if v, ok := cb.watch.enter(); ok {
		value, err := process(valued(v.ctx, ctx), cb.rdb, c)
		if none := cb.watch.leave(v, err); !none {
			return value, err
		}
	}
	return process(ctx, cb.outside(ctx), c)
}

// valued is a ctx that ends as one and has the values of another.
func valued(ends, values context.Context) context.Context {
	if values == context.Background() {
		return ends
	}
	return valuedContext{ends, values}
}

type valuedContext struct {
	context.Context
	values context.Context
}

func (c valuedContext) Value(key any) any { return c.values.Value(key) }

// await returns true when the reply has come, or false when ctx has ended before.
func (cb *combiner) await(ctx context.Context, t *errand) bool {
	if ctx.Done() == nil {
		<-t.done
		return true
	}
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
	}
	if cb.leave(t) {
		return false
	}
	select { // the reply may have come just now
	case <-t.done:
		return true
	default:
		return false // it is left behind; the lane forgets it
	}
}

// landed frees the lane of a call that went alone, or sends those who wait.
func (cb *combiner) landed() {
	var l *lane
	cb.mu.Lock()
	cb.busy--
	if len(cb.line) > 0 {
		l = cb.free()
	}
	cb.mu.Unlock()
	if l != nil {
		cb.workers.do(l)
	}
}

// free takes a lane into use if there is one. The mutex is held.
func (cb *combiner) free() *lane {
	if cb.busy >= cb.lanes {
		return nil
	}
	cb.busy++
	if n := len(cb.spare); n > 0 {
		l := cb.spare[n-1]
		cb.spare = cb.spare[:n-1]
		return l
	}
	return &lane{cb: cb}
}

// join puts a call into the line. The mutex is held.
func (cb *combiner) join(c script.Call) *errand {
	t, _ := cb.errands.Get().(*errand)
	if t == nil {
		t = &errand{done: make(chan struct{}, 1)}
	}
	t.call = c
	cb.line = append(cb.line, t)
	return t
}

// leave takes a call out of the line, unless it was sent.
func (cb *combiner) leave(t *errand) bool {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	i := slices.Index(cb.line, t)
	if i < 0 {
		return false
	}
	cb.line = slices.Delete(cb.line, i, i+1)
	cb.keep(t)
	return true
}

// keep makes an errand that nobody uses any more ready for the next call.
func (cb *combiner) keep(t *errand) {
	t.call, t.reply = script.Call{}, reply{}
	cb.errands.Put(t)
}
