package goredis

import (
	"context"
	"slices"
	"sync"
	"time"
)

// bounded runs call and returns when call returns or ctx ends, whichever is first: by
// default go-redis does not check ctx while it writes or reads. A call that still runs then
// ends by the timeouts of its connection.
func bounded[T any](e *Engine, ctx context.Context, call func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return call()
	}
	t := &task[T]{call: call, done: make(chan struct{})}
	e.workers.do(t)
	select {
	case <-t.done:
		return t.value, t.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// task is a call for a worker.
type task[T any] struct {
	call  func() (T, error)
	value T
	err   error
	done  chan struct{}
}

func (t *task[T]) run()  { t.value, t.err = t.call() }
func (t *task[T]) tell() { close(t.done) }

type job interface {
	run()
	tell() // reports that it has run
}

// sweep is how often idle workers are ended; an idle worker lives for one to two sweeps.
const sweep = 25 * time.Millisecond

// workers runs calls in goroutines that are used again: go-redis needs a deep stack, and to
// grow one costs as much as the round trip. There are as many workers as calls at a time, and
// none two sweeps after the last call.
type workers struct {
	mu       sync.Mutex
	live     int       // goroutines
	idle     []*worker // used from the end: the stack of the last one is still in the cache
	unused   int       // the number at the start of idle that were not used since the last sweep
	sweeping bool      // a sweep is scheduled
	draining int       // callers of drain
	gone     chan struct{}
}

type worker struct {
	jobs chan job // of capacity 1: a job may be sent before the worker receives
}

// do runs a job in a worker.
func (ws *workers) do(j job) {
	ws.mu.Lock()
	var w *worker
	if n := len(ws.idle); n > 0 {
		w, ws.idle = ws.idle[n-1], ws.idle[:n-1]
		ws.unused = min(ws.unused, n-1)
	} else {
		w = &worker{jobs: make(chan job, 1)}
		ws.live++
		go ws.loop(w)
	}
	ws.mu.Unlock()
	w.jobs <- j
}

func (ws *workers) loop(w *worker) {
	for j := range w.jobs {
		j.run()
		stays := ws.park(w) // before tell, so that the caller's next call can use it
		j.tell()
		if !stays {
			break
		}
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.live--
	if ws.live == 0 && ws.gone != nil {
		close(ws.gone)
		ws.gone = nil
	}
}

// park makes a worker idle. It returns false if the worker must end, since the last client
// has left.
func (ws *workers) park(w *worker) (stays bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.draining > 0 {
		return false
	}
	ws.idle = append(ws.idle, w)
	if !ws.sweeping {
		ws.sweeping = true
		time.AfterFunc(sweep, ws.sweep)
	}
	return true
}

// sweep ends the workers that were idle since the last sweep. A timer for each worker would
// cost every call more than the worker saves.
func (ws *workers) sweep() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.dismiss(ws.unused)
	ws.unused = len(ws.idle)
	ws.sweeping = len(ws.idle) > 0
	if ws.sweeping {
		time.AfterFunc(sweep, ws.sweep)
	}
}

// dismiss ends the first n idle workers.
func (ws *workers) dismiss(n int) {
	for _, w := range ws.idle[:n] {
		close(w.jobs)
	}
	ws.idle = slices.Delete(ws.idle, 0, n)
	ws.unused = max(0, ws.unused-n)
}

// drain waits until no worker is left, at most for the limit.
func (ws *workers) drain(limit time.Duration) {
	ws.mu.Lock()
	ws.dismiss(len(ws.idle))
	if ws.live == 0 {
		ws.mu.Unlock()
		return
	}
	if ws.gone == nil {
		ws.gone = make(chan struct{})
	}
	gone := ws.gone
	ws.draining++
	ws.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-gone:
	case <-timer.C:
	}
	ws.mu.Lock()
	ws.draining--
	ws.mu.Unlock()
}
