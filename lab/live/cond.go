package live

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/workload"
)

const (
	// condHold is the longest work under a mutex with a condition, so that those that a signal wakes get it soon.
	condHold = 3 * time.Millisecond
	// wokenIn is, besides a hand-off, how long it takes until all that a broadcast wakes have had the mutex.
	wokenIn = 500 * time.Millisecond
)

// cond changes a number under a mutex and wakes all that wait for that, or waits for it and then changes it.
func (w *worker) cond(ctx context.Context, r round, got func()) error {
	r.hold = min(r.hold, condHold)
	mutex := w.client.(*holdfastClient).c.Mutex(r.Name, w.client.(*holdfastClient).options(r)...)
	changed := mutex.Cond("changed")
	at, work := r.work()
	lock := func(ctx context.Context) (workload.Hold, error) {
		l, err := leased(mutex.Lock(ctx))
		if err == nil {
			got()
		}
		return l, err
	}
	if r.weight > 1 {
		return w.load.Round(ctx, at, lock, func(ctx context.Context, s *workload.Lease) error {
			if err := work(ctx, s); err != nil {
				return err
			}
			return w.signal(r.Name, func() error { return changed.Broadcast(ctx) })
		})
	}
	// The mutex is acquired as soon as the wait is over, so the wait is part of the acquire.
	return w.load.Round(ctx, at, func(ctx context.Context) (workload.Hold, error) {
		var first *waitingHold
		err := w.load.Round(ctx, at, func(ctx context.Context) (workload.Hold, error) {
			l, err := mutex.Lock(ctx)
			if err != nil {
				return nil, err
			}
			first = &waitingHold{lease: lease{l}, w: w, cond: changed, resource: r.Name}
			return first, nil
		}, workload.Stand(0))
		switch {
		case first == nil || first.next == nil && first.err == nil:
			return nil, err // the mutex was not acquired, or the client was killed
		case first.err != nil:
			return nil, first.err
		}
		got()
		return lease{first.next}, nil
	}, work)
}

// signal records a call that wakes all waiters.
func (w *worker) signal(resource string, call func() error) error {
	op := history.Op{Client: w.Name, Kind: history.Signal, Resource: resource, Call: w.load.Rec.Now(), Outcome: history.Unknown}
	err := call()
	op.Return = w.load.Rec.Now()
	if err == nil {
		op.Outcome = history.OK
	}
	w.load.Rec.Add(op)
	return err
}

// waitingHold is a hold that is released by a wait for a condition, after which the mutex is held again.
type waitingHold struct {
	lease
	w        *worker
	cond     *holdfast.Cond
	resource string

	next *holdfast.Lease
	err  error
}

// Release implements workload.Hold.
func (h *waitingHold) Release(ctx context.Context) error {
	op := history.Op{Client: h.w.Name, Kind: history.Wait, Resource: h.resource, Call: h.w.load.Rec.Now(), Outcome: history.Failed}
	h.next, h.err = h.cond.Wait(ctx, h.Lease)
	op.Return = h.w.load.Rec.Now()
	if h.err == nil {
		op.Outcome = history.OK
	}
	h.w.load.Rec.Add(op)
	if errors.Is(h.err, holdfast.ErrLost) {
		return h.err
	}
	return nil // the lease is released, or will be
}
