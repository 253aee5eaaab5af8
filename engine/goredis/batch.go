package goredis

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
	"github.com/holdfast-go/holdfast/internal/eitherctx"
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
	e      *Engine
	rdb    redis.UniversalClient
	pool   *poolWatch // of the pool that its calls use
	merger *merger    // nil: calls are not merged
	most   int
	sender func()    // send
	calls  sync.Pool // of *batchedCall that are not used any more

	mu      sync.Mutex
	busy    int            // senders in use; a call that is sent alone uses one too
	waiting []*batchedCall // calls that wait for a sender, and withdrawn calls
	gone    int            // the withdrawn calls among these
}

// batchedCall is a call that waits to be sent, or for its reply.
type batchedCall struct {
	call  script.Call
	reply chan reply // of capacity 1

	// Guarded by mu of the batcher.
	sent bool // it does not wait any more
	gone bool // it is withdrawn
}

// newBatcher returns a batcher for calls over rdb to the server of node.
func newBatcher(rdb redis.UniversalClient, node *redis.Client, e *Engine) *batcher {
	cb := &batcher{
		e: e, rdb: rdb, pool: newPoolWatch(node), most: min(batchSenders, node.Options().PoolSize),
		calls: sync.Pool{New: func() any { return &batchedCall{reply: make(chan reply, 1)} }},
	}
	cb.sender = cb.send
	return cb
}

// idle reports whether no call is in flight.
func (cb *batcher) idle() bool {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	return cb.busy == 0
}

// addDepth adds the calls of the batcher.
func (cb *batcher) addDepth(d *engine.BatchDepth) {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	d.Waiting += len(cb.waiting) - cb.gone
	d.Sending += cb.busy
}

// run runs one script, in a batch if many calls are in flight.
func (cb *batcher) run(ctx context.Context, c script.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ended, alsoEnded := eitherctx.Done(ctx) // without the mutex: a hook may be called, which may ask for the depth
	cb.mu.Lock()
	free := cb.busy < cb.most
	if free {
		cb.busy++
	}
	if free && ended == nil && alsoEnded == nil {
		cb.mu.Unlock()
		value, err := cb.process(ctx, c)
		cb.done()
		return value, err
	}
	t := cb.calls.Get().(*batchedCall)
	t.call, t.sent = c, false
	cb.waiting = append(cb.waiting, t)
	cb.mu.Unlock()
	if free {
		cb.e.workers.do(cb.sender)
	}
	select {
	case r := <-t.reply:
		cb.calls.Put(t)
		return r.value, r.err
	case <-ended:
	case <-alsoEnded:
	}
	cb.withdraw(t)
	select { // the reply may have arrived meanwhile
	case r := <-t.reply:
		return r.value, r.err
	default:
		return nil, ctx.Err() // if the call is in flight, its reply is discarded
	}
}

// process makes one call. ctx never ends.
func (cb *batcher) process(ctx context.Context, c script.Call) (any, error) {
	if v, ok := cb.pool.enter(); ok {
		value, err := process(valued(v.ctx, ctx), cb.rdb, c)
		cb.pool.leave(v)
		if !v.unsent(err) {
			return value, err
		}
	}
	return process(ctx, cb.e.outside(ctx), c)
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

// withdraw removes a call that waits, unless it has been sent. Many may end at one moment, so a withdrawn
// call stays in the list until most of the list is withdrawn.
func (cb *batcher) withdraw(t *batchedCall) {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	if t.sent {
		return
	}
	t.gone = true
	cb.gone++
	if 2*cb.gone > len(cb.waiting) {
		cb.waiting = slices.DeleteFunc(cb.waiting, func(t *batchedCall) bool { return t.gone })
		cb.gone = 0
	}
}

// done frees the sender of a call that was sent alone, or sends the calls that wait.
func (cb *batcher) done() {
	cb.mu.Lock()
	more := len(cb.waiting) > 0
	if !more {
		cb.busy--
	}
	cb.mu.Unlock()
	if more {
		cb.e.workers.do(cb.sender)
	}
}

// send is a sender: it sends batches, one after the other, until no call waits.
func (cb *batcher) send() {
	var one [1]*batchedCall // enough for a lone call
	for all := cb.next(one[:0]); len(all) > 0; all = cb.next(one[:0]) {
		cb.sendBatch(all)
		// The callers that have their replies often call again at once. If they run first,
		// their calls are in one batch.
		runtime.Gosched()
	}
}

// next adds calls that wait to all. If there are none, it frees the sender.
func (cb *batcher) next(all []*batchedCall) []*batchedCall {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	all = slices.Grow(all, min(len(cb.waiting), maxBatch))
	n := 0
	for ; n < len(cb.waiting) && len(all) < maxBatch; n++ {
		if t := cb.waiting[n]; t.gone {
			cb.gone--
		} else {
			t.sent = true
			all = append(all, t)
		}
	}
	cb.waiting = slices.Delete(cb.waiting, 0, n)
	if len(all) == 0 {
		cb.busy--
	}
	return all
}

// sendBatch sends calls and distributes the replies. The timeouts of the connection bound the
// batch; the ctx of each caller bounds only its wait.
func (cb *batcher) sendBatch(all []*batchedCall) {
	ctx := context.Background()
	if len(all) == 1 {
		value, err := cb.process(ctx, all[0].call)
		all[0].reply <- reply{value, err}
		return
	}
	calls := make([]script.Call, len(all))
	for i, t := range all {
		calls[i] = t.call
	}
	for i, r := range cb.batch(ctx, calls) {
		all[i].reply <- r
	}
}

// batch makes calls in one pipeline, and those that got no connection in another one over the own connections.
func (cb *batcher) batch(ctx context.Context, calls []script.Call) []reply {
	v, ok := cb.pool.enter()
	if !ok {
		return cb.merger.run(ctx, cb.e.outside(ctx), calls)
	}
	replies := cb.merger.run(v.ctx, cb.rdb, calls)
	cb.pool.leave(v)
	var unsent []int
	for i, r := range replies {
		if v.unsent(r.err) {
			unsent = append(unsent, i)
		}
	}
	if len(unsent) > 0 {
		for n, r := range cb.merger.run(ctx, cb.e.outside(ctx), pick(calls, unsent)) {
			replies[unsent[n]] = r
		}
	}
	return replies
}
