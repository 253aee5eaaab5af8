package goredis

import (
	"context"
	"runtime"
	"slices"

	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// batchSender is a job for a worker: it sends batches of a batcher, one after the other,
// until no call waits.
type batchSender struct {
	b       *batcher
	all     []*batchedCall // of the current batch
	calls   []script.Call
	buffers batchBuffers
}

func (l *batchSender) tell() {}

func (l *batchSender) run() {
	for l.next() {
		l.send()
		clear(l.all)
		clear(l.calls)
		l.buffers.clear()
		// The callers that have their replies often call again at once. If they run first,
		// their calls are in one batch.
		runtime.Gosched()
	}
}

// next takes the calls that wait. If there are none, it returns the sender to the batcher.
func (l *batchSender) next() bool {
	cb := l.b
	cb.mu.Lock()
	defer cb.mu.Unlock()
	switch n := len(cb.waiting); {
	case n == 0:
		cb.busy--
		cb.idleSenders = append(cb.idleSenders, l)
		return false
	case n <= maxBatch:
		cb.waiting, l.all = l.all[:0], cb.waiting
	default:
		l.all = append(l.all[:0], cb.waiting[:maxBatch]...)
		cb.waiting = slices.Delete(cb.waiting, 0, maxBatch)
	}
	return true
}

// send sends a batch and distributes the replies. The timeouts of the connection bound the
// batch; the ctx of each caller bounds only its wait.
func (l *batchSender) send() {
	ctx := context.Background()
	if len(l.all) == 1 {
		t := l.all[0]
		t.reply.value, t.reply.err = l.b.process(ctx, t.call)
		t.done <- struct{}{}
		return
	}
	l.calls = l.calls[:0]
	for _, t := range l.all {
		l.calls = append(l.calls, t.call)
	}
	for i, r := range l.batch(ctx) {
		l.all[i].reply = r
		l.all[i].done <- struct{}{} // it never blocks: one reply for each call
	}
}

// batch makes the calls in one pipeline.
func (l *batchSender) batch(ctx context.Context) []reply {
	cb := l.b
	if v, ok := cb.pool.enter(); ok {
		replies := l.buffers.run(v.ctx, cb.rdb, cb.merger, l.calls)
		none := cb.pool.leave(v, replies[0].err) // the same for all calls of a pipeline
		if !none {
			return replies
		}
		l.buffers.clear()
	}
	return l.buffers.run(ctx, cb.outside(ctx), cb.merger, l.calls)
}

var _ job = (*batchSender)(nil)
