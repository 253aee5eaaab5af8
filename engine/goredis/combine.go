package goredis

import (
	"context"
	"runtime"
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
	workers *workers
	lanes   int

	mu    sync.Mutex
	busy  int // lanes in use
	line  []*errand
	spare []*errand
}

// errand is a call that waits to be sent, or for its reply.
type errand struct {
	call  script.Call
	reply reply
	done  chan struct{}
}

func newCombiner(rdb redis.UniversalClient, poolSize int, ws *workers) *combiner {
	return &combiner{rdb: rdb, workers: ws, lanes: min(lanes, poolSize)}
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
	free := cb.busy < cb.lanes
	if free {
		cb.busy++
		if ctx.Done() == nil {
			cb.mu.Unlock()
			value, err := process(ctx, cb.rdb, c)
			cb.landed()
			return value, err
		}
	}
	t := cb.join(c)
	cb.mu.Unlock()
	if free {
		cb.workers.do((*lane)(cb))
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		if cb.leave(t) {
			return nil, ctx.Err()
		}
		select { // the reply may have come just now
		case <-t.done:
		default:
			return nil, ctx.Err() // it is left behind; the lane forgets it
		}
	}
	r := t.reply
	cb.mu.Lock()
	cb.keep(t)
	cb.mu.Unlock()
	return r.value, r.err
}

// landed frees the lane of a call that went alone, or sends those who wait.
func (cb *combiner) landed() {
	cb.mu.Lock()
	waiting := len(cb.line) > 0
	if !waiting {
		cb.busy--
	}
	cb.mu.Unlock()
	if waiting {
		cb.workers.do((*lane)(cb))
	}
}

// lane is a combiner as the job of a worker: to send batches until nobody waits.
type lane combiner

func (l *lane) tell() {}

func (l *lane) run() {
	cb := (*combiner)(l)
	var all []*errand
	var calls []script.Call
	for {
		all = cb.next(all[:0])
		if len(all) == 0 {
			return
		}
		calls = calls[:0]
		for _, t := range all {
			calls = append(calls, t.call)
		}
		cb.sendAll(all, calls)
		clear(all)
		clear(calls)
		// Who was answered asks again soon: in one batch, if they go first.
		runtime.Gosched()
	}
}

// sendAll sends a batch and answers each call of it. Each is bounded by its own
// ctx where it waits; the batch by the timeouts of the connection.
func (cb *combiner) sendAll(all []*errand, calls []script.Call) {
	ctx := context.Background()
	if len(calls) == 1 {
		all[0].reply.value, all[0].reply.err = process(ctx, cb.rdb, calls[0])
		all[0].done <- struct{}{}
		return
	}
	for i, r := range batch(ctx, cb.rdb, calls) {
		all[i].reply = r
		all[i].done <- struct{}{} // it has room: one answer for each
	}
}

// next takes those who wait; with nobody waiting it gives the lane back.
func (cb *combiner) next(all []*errand) []*errand {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	n := min(len(cb.line), mostCombined)
	if n == 0 {
		cb.busy--
		return nil
	}
	all = append(all, cb.line[:n]...)
	cb.line = slices.Delete(cb.line, 0, n)
	return all
}

// join puts a call into the line. The mutex is held.
func (cb *combiner) join(c script.Call) *errand {
	var t *errand
	if n := len(cb.spare); n > 0 {
		t = cb.spare[n-1]
		cb.spare = cb.spare[:n-1]
	} else {
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

// keep makes an errand that nobody uses any more ready for the next call. The
// mutex is held.
func (cb *combiner) keep(t *errand) {
	t.call, t.reply = script.Call{}, reply{}
	if len(cb.spare) < 2*mostCombined {
		cb.spare = append(cb.spare, t)
	}
}
