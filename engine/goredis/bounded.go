package goredis

import (
	"context"
	"sync/atomic"
	"time"
)

// bounded runs call and returns when call returns or ctx ends, whichever is first: by
// default go-redis does not check ctx while it writes or reads. A call that still runs then
// ends by the timeouts of its connection.
func bounded[T any](e *Engine, ctx context.Context, call func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return call()
	}
	done := make(chan outcome, 1)
	e.workers.do(func() {
		value, err := call()
		done <- outcome{value, err}
	})
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// workerLife is how long a worker lives, and so how long one is idle at most.
const workerLife = 50 * time.Millisecond

// workers runs calls in goroutines that are used again: go-redis needs a deep stack, and to
// grow one costs as much as the round trip. There are as many workers as calls at a time, and
// none soon after the last call.
type workers struct {
	jobs chan func()  // received by idle workers; nil ends one
	live atomic.Int64 // goroutines
}

// do runs a job in a worker.
func (ws *workers) do(job func()) {
	select {
	case ws.jobs <- job:
	default:
		ws.live.Add(1)
		go ws.work(job)
	}
}

func (ws *workers) work(job func()) {
	defer ws.live.Add(-1)
	end := time.NewTimer(workerLife)
	defer end.Stop()
	for job != nil {
		job()
		select {
		case job = <-ws.jobs:
		case <-end.C:
			return
		}
	}
}

// drain waits until no worker is left, at most for the limit.
func (ws *workers) drain(limit time.Duration) {
	for end := time.Now().Add(limit); ws.live.Load() > 0 && time.Now().Before(end); {
		select {
		case ws.jobs <- nil:
		case <-time.After(time.Millisecond): // none is idle yet
		}
	}
}
