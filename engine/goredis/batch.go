package goredis

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// batchSenders is how many calls or batches are in flight before further calls wait and are
// batched. With few senders batches are large, and a call in a large batch costs client and
// server a fraction of a single call. With more senders a call waits less: with four, a
// quarter of a round trip.
const batchSenders = 4

// maxBatch bounds a batch, so that its first call does not wait long for the last one.
const maxBatch = 128

// batcher sends the calls of many goroutines in few pipelines. If a sender is free, a call is
// sent at once and alone, so batching costs a single caller nothing. Otherwise it waits until
// a sender is free, which sends all waiting calls.
//
// A call that ends by its ctx while it waits was never sent.
type batcher struct {
	rdb      redis.UniversalClient
	pool     *poolWatch                                  // of the pool that its calls use
	outside  func(context.Context) redis.UniversalClient // the client to use if the pool has no connection
	workers  *workers
	merger   *merger // nil: calls are not merged
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

// idle reports whether no call is in flight.
func (cb *batcher) idle() bool {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	return cb.busy == 0
}

// run runs one script, in a batch if many calls are in flight.
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

// process makes one call. ctx never ends.
func (cb *batcher) process(ctx context.Context, c script.Call) (any, error) {
	if v, ok := cb.pool.enter(); ok {
		value, err := process(valued(v.ctx, ctx), cb.rdb, c)
		if none := cb.pool.leave(v, err); !none {
			return value, err
		}
	}
	return process(ctx, cb.outside(ctx), c)
}

// valued returns a ctx that ends with one ctx and has the values of another.
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

// wait returns true when the reply has arrived, or false if ctx ends before.
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
	select { // the reply may have arrived meanwhile
	case <-t.done:
		return true
	default:
		return false // it is in flight, and its reply is discarded
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

// takeSender returns a free sender, or nil if all are in use. The mutex is held.
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

// join adds a call to those that wait. The mutex is held.
func (cb *batcher) join(c script.Call) *batchedCall {
	t, _ := cb.recycled.Get().(*batchedCall)
	if t == nil {
		t = &batchedCall{done: make(chan struct{}, 1)}
	}
	t.call = c
	cb.waiting = append(cb.waiting, t)
	return t
}

// withdraw removes a call that waits. It returns false if the call has been sent.
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

// recycle keeps a batchedCall that is no longer used for another call.
func (cb *batcher) recycle(t *batchedCall) {
	t.call, t.reply = script.Call{}, reply{}
	cb.recycled.Put(t)
}
