package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

const (
	// latchEvery is how long the workers use a latch before they begin with the next one.
	latchEvery = 250 * time.Millisecond
	// latchLife is longer than a run.
	latchLife = 5 * time.Minute
)

// latch counts down the present latch, or waits for it. The first hand of one worker has set it.
func (w *worker) latch(ctx context.Context, r round) error {
	n := uint64(w.load.Rec.Now() / latchEvery)
	name := fmt.Sprintf("%s/%d", r.Name, n)
	m := w.client.(*holdfastClient)
	if n%uint64(w.Program.Workers) == w.Place && w.latches.first(name) {
		return w.call(ctx, m, name, history.Set, int64(1+r.weight))
	}
	if r.try() {
		return w.call(ctx, m, name, history.Wait, 0)
	}
	return w.call(ctx, m, name, history.Count, 0)
}

// call calls a latch and records it. A call that counts is recorded when it begins, and when it has counted.
func (w *worker) call(ctx context.Context, m *holdfastClient, name string, kind history.Kind, count int64) error {
	l := m.c.Latch(name, holdfast.WithTTL(latchLife))
	op := history.Op{Client: w.Name, Kind: kind, Resource: name, Call: w.load.Rec.Now(), Outcome: history.Unknown, Value: count}
	op.Return = op.Call
	var err error
	switch kind {
	case history.Set:
		var set bool
		if set, err = l.TrySet(ctx, int(count)); err == nil && !set {
			w.trouble("latch", name, "%s was told that a latch is set that nobody else sets", w.Name)
		}
	case history.Count:
		w.load.Rec.Add(op)
		err = l.CountDown(ctx)
	case history.Wait:
		err = l.Wait(ctx)
		op.Outcome = history.Failed
		if errors.Is(err, holdfast.ErrLatchEnded) {
			op.Note = check.Opened
		}
	}
	op.Return = w.load.Rec.Now()
	if err == nil {
		op.Outcome = history.OK
	}
	if kind != history.Count || err == nil {
		w.load.Rec.Add(op)
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// try reports whether a round of a latch waits.
func (r round) try() bool { return r.weight == 1 }

// relatch sets, counts down and awaits a latch of its own.
func (w *worker) relatch(ctx context.Context, r round) error {
	m, name := w.client.(*holdfastClient), fmt.Sprintf("%s/last-%s-%d", r.Name, w.Name, w.load.Rec.Now())
	for _, kind := range []history.Kind{history.Set, history.Count, history.Wait} {
		if err := w.call(ctx, m, name, kind, 1); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// recheckLatch reports whether the check is over.
func (w *worker) recheckLatch(ctx context.Context, r round) (over bool) {
	err := w.relatch(ctx, r)
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil:
		w.trouble("stuck", r.Name, "%s did not open a latch in %v when all was well again: %v", w.Name, recheckTimeout, err)
		return true
	case !w.passing(err) && !w.client.passing(err):
		w.trouble("errors", r.Name, "when all was well again %s got: %v", w.Name, err)
		return true
	}
	return false
}

// latchNames are those of the latches that a worker has set.
type latchNames struct {
	mu   sync.Mutex
	have map[string]bool
}

// first reports whether it is the first call with a name.
func (l *latchNames) first(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.have == nil {
		l.have = map[string]bool{}
	}
	first := !l.have[name]
	l.have[name] = true
	return first
}
