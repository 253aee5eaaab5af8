package holdfast

import (
	"context"
	"time"
)

// A WaitHook is called when an acquire joins a queue: first, it may be, that of
// its process, and then the store's. An acquire that waits for an unavailable
// store is in no queue.
type WaitHook interface {
	Wait(ctx context.Context, e WaitEvent)
}

// A WaitEvent is the beginning of a wait in one queue.
type WaitEvent struct {
	Resource string
	Kind     string
	Weight   int
	Queue    WaitQueue
	Ahead    int // number of waiters ahead, at about this moment
}

// A WithdrawHook is called when a wait in a queue ends without a grant. The
// acquire then fails, except that with [WithFallback] it may continue without
// the store.
type WithdrawHook interface {
	Withdraw(ctx context.Context, e WithdrawEvent)
}

// A WithdrawEvent is the end of a wait in one queue without a grant.
type WithdrawEvent struct {
	Resource string
	Kind     string
	Weight   int
	Queue    WaitQueue
	Ahead    int           // number of waiters ahead, by the latest answer
	Waited   time.Duration // in this queue
	Err      error         // why, as the acquire returns it
}

// A WaitQueue is a queue in which an acquire waits.
type WaitQueue uint8

// The queues.
const (
	// WaitProcess: the callers of this client that may hand off a lease to each
	// other.
	WaitProcess WaitQueue = iota + 1
	// WaitStore: the queue of the resource in the store.
	WaitStore
	// WaitFallback: the callers of this client that hold the resource, or wait,
	// under WithFallback(LocalOnly).
	WaitFallback

	waitQueues // number of queues, from 0
)

func (q WaitQueue) String() string {
	return nameOf(q, []string{
		"none", WaitProcess: "process", WaitStore: "store", WaitFallback: "fallback",
	})
}

// queueWait is the wait of one acquire in one queue. The zero value is none.
type queueWait struct {
	queue WaitQueue
	ahead int
	since time.Time
	spans *callSpans // nil: it does not look for the holder
}

// begin counts, logs and reports the beginning of a wait, once.
func (w *queueWait) begin(ctx context.Context, lk *acquirer, weight int, queue WaitQueue, ahead int) {
	w.ahead = ahead
	if w.queue != 0 {
		return
	}
	w.queue, w.since = queue, time.Now()
	lk.c.counts.waiting[queue].Add(1)
	lk.c.leaseLog.waits(lk, queue, ahead)
	w.spans.waits(lk)
	for _, hook := range lk.c.hooks.wait {
		hook.Wait(ctx, WaitEvent{Resource: lk.name, Kind: string(lk.kind), Weight: weight, Queue: queue, Ahead: ahead})
	}
}

// end counts the end of a wait, if there was one, and reports it if it failed.
func (w *queueWait) end(ctx context.Context, lk *acquirer, weight int, err error) {
	if w.queue == 0 {
		return
	}
	lk.c.counts.waiting[w.queue].Add(-1)
	if err == nil {
		return
	}
	for _, hook := range lk.c.hooks.withdraw {
		hook.Withdraw(ctx, WithdrawEvent{
			Resource: lk.name, Kind: string(lk.kind), Weight: weight,
			Queue: w.queue, Ahead: w.ahead, Waited: time.Since(w.since), Err: err,
		})
	}
}
