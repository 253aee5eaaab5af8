package goredis

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// batchSenders is how many calls or batches are under way at a time before further calls
// are batched. Few senders make large batches, in which a call costs both sides a fraction
// of what it costs alone; more of them shorten the wait for a slow network: with four it is
// a quarter of a round trip.
const batchSenders = 4

// maxBatch bounds a batch, so that its first call does not wait long for its last.
const maxBatch = 128

// batcher sends calls of many goroutines in few pipelines. As long as a sender is free, a
// call is sent at once, alone: a single caller pays nothing. Otherwise it waits, and is
// sent with all others that wait as soon as a sender is free.
//
// A call that ends by its ctx while it waits was never sent.
type batcher struct {
	rdb      redis.UniversalClient
	pool     *poolWatch                                  // of the pool that its calls use
	outside  func(context.Context) redis.UniversalClient // where calls go if that has no connection
	workers  *workers
	merger   *merger // nil: each call of a batch is one of its own
	most     int
	recycled sync.Pool // of *batchedCall

	mu          sync.Mutex
	busy        int            // senders in use; a call that is sent alone uses one too
	waiting     []*batchedCall // calls that wait for a sender
	idleSenders []*batchSender
}

// batchedCall is a call that waits to be sent, or for its reply.
type batchedCall struct {
	call  script.Call
	reply reply
	done  chan struct{}
}

// newBatcher returns a batcher for calls over rdb to the server of node.
func newBatcher(rdb redis.UniversalClient, node *redis.Client, e *Engine) *batcher {
	return &batcher{
		rdb: rdb, pool: newPoolWatch(node), outside: e.outside, workers: &e.workers,
		most: min(batchSenders, node.Options().PoolSize),
	}
}

// idle tells whether nothing is under way.
func (cb *batcher) idle() bool {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	return cb.busy == 0
}

// run runs one script, together with those of others if many are under way.
func (cb *batcher) run(ctx context.Context, c script.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cb.mu.Lock()
	if cb.busy < cb.most && ctx.Done() == nil {
		cb.busy++
		cb.mu.Unlock()
		value, err := cb.process(ctx, c)
		cb.done()
		return value, err
	}
	t := cb.join(c)
	l := cb.takeSender()
	cb.mu.Unlock()
	if l != nil {
		cb.workers.do(l)
	}
	if !cb.wait(ctx, t) {
		return nil, ctx.Err()
	}
	r := t.reply
	cb.recycle(t)
	return r.value, r.err
}

// process makes one call. Its ctx has no end.
func (cb *batcher) process(ctx context.Context, c script.Call) (any, error) {
	if v, ok := cb.pool.enter(); ok {
		value, err := process(valued(v.ctx, ctx), cb.rdb, c)
		if none := cb.pool.leave(v, err); !none {
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
func (cb *batcher) wait(ctx context.Context, t *batchedCall) bool {
	if ctx.Done() == nil {
		<-t.done
		return true
	}
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
	}
	if cb.withdraw(t) {
		return false
	}
	select { // the reply may have come just now
	case <-t.done:
		return true
	default:
		return false // it is under way; its sender ignores it
	}
}

// done frees the sender of a call that was sent alone, or sends the calls that wait.
func (cb *batcher) done() {
	var l *batchSender
	cb.mu.Lock()
	cb.busy--
	if len(cb.waiting) > 0 {
		l = cb.takeSender()
	}
	cb.mu.Unlock()
	if l != nil {
		cb.workers.do(l)
	}
}

// takeSender returns a sender to be used, or nil if all are in use. The mutex is held.
func (cb *batcher) takeSender() *batchSender {
	if cb.busy >= cb.most {
		return nil
	}
	cb.busy++
	if n := len(cb.idleSenders); n > 0 {
		l := cb.idleSenders[n-1]
		cb.idleSenders = cb.idleSenders[:n-1]
		return l
	}
	return &batchSender{b: cb}
}

// join puts a call into the line. The mutex is held.
func (cb *batcher) join(c script.Call) *batchedCall {
	t, _ := cb.recycled.Get().(*batchedCall)
	if t == nil {
		t = &batchedCall{done: make(chan struct{}, 1)}
	}
	t.call = c
	cb.waiting = append(cb.waiting, t)
	return t
}

// leave takes a call out of the line, unless it was sent.
func (cb *batcher) withdraw(t *batchedCall) bool {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	i := slices.Index(cb.waiting, t)
	if i < 0 {
		return false
	}
	cb.waiting = slices.Delete(cb.waiting, i, i+1)
	cb.recycle(t)
	return true
}

// recycle makes a batchedCall that is no longer used ready for another call.
func (cb *batcher) recycle(t *batchedCall) {
	t.call, t.reply = script.Call{}, reply{}
	cb.recycled.Put(t)
}
