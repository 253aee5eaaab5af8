package goredis

import (
	"context"
	"runtime"
	"slices"

	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// lane is one of the ways of a combiner: as the job of a worker it sends batches,
// one after the other, until nobody waits.
type lane struct {
	cb    *combiner
	all   []*errand // of the present batch
	calls []script.Call
	mem   gathering
}

func (l *lane) tell() {}

func (l *lane) run() {
	for l.next() {
		l.send()
		clear(l.all)
		clear(l.calls)
		l.mem.clear()
		// Who was answered asks again soon: in one batch, if they go first.
		runtime.Gosched()
	}
}

// next takes those who wait; with nobody waiting it gives the lane back.
func (l *lane) next() bool {
	cb := l.cb
	cb.mu.Lock()
	defer cb.mu.Unlock()
	switch n := len(cb.line); {
	case n == 0:
		cb.busy--
		cb.spare = append(cb.spare, l)
		return false
	case n <= mostCombined:
		cb.line, l.all = l.all[:0], cb.line
	default:
		l.all = append(l.all[:0], cb.line[:mostCombined]...)
		cb.line = slices.Delete(cb.line, 0, mostCombined)
	}
	return true
}

// send sends a batch and answers each call of it. Each is bounded by its own ctx
// where it waits; the batch by the timeouts of the connection.
func (l *lane) send() {
	ctx := context.Background()
	if len(l.all) == 1 {
		t := l.all[0]
		t.reply.value, t.reply.err = l.cb.process(ctx, t.call)
		t.done <- struct{}{}
		return
	}
	l.calls = l.calls[:0]
	for _, t := range l.all {
		l.calls = append(l.calls, t.call)
	}
	for i, r := range l.batch(ctx) {
		l.all[i].reply = r
		l.all[i].done <- struct{}{} // it has room: one answer for each
	}
}

// batch makes the calls in one pipeline.
func (l *lane) batch(ctx context.Context) []reply {
	cb := l.cb
	if v, ok := cb.watch.enter(); ok {
		replies := l.mem.run(v.ctx, cb.rdb, cb.union, l.calls)
		none := cb.watch.leave(v, replies[0].err) // of all or of nobody
		if !none {
			return replies
		}
		l.mem.clear()
	}
	return l.mem.run(ctx, cb.outside(ctx), cb.union, l.calls)
}

var _ job = (*lane)(nil)
