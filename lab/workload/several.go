package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Several acquires several locks that end together, works and releases them, as Round does with one. The take returns a hold for
// each place; a Release of the first releases all. In the history each is a lease of its own.
func (w *Worker) Several(ctx context.Context, at []Place, take func(context.Context) ([]Hold, error), work func(context.Context, []*Lease) error) error {
	all, err := w.takeSeveral(ctx, at, take)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	var watched []chan struct{}
	for _, s := range all {
		watched = append(watched, s.watch(ctx, ended))
	}
	unwatch := func() {
		close(ended)
		for _, done := range watched {
			<-done
		}
	}
	for _, s := range all {
		err = errors.Join(err, s.enter())
	}
	if err == nil {
		err = work(ctx, all)
	}
	if errors.Is(err, ErrDead) {
		unwatch()
		for _, s := range all {
			s.renewed()
			s.note(history.Leave, history.OK)
		}
		return err
	}
	return errors.Join(err, w.leaveSeveral(ctx, all, unwatch))
}

// Parts separates the common part of the holders of leases that Several has acquired together from the number of each.
const Parts = "/"

// takeSeveral acquires the locks and records the result.
func (w *Worker) takeSeveral(ctx context.Context, at []Place, take func(context.Context) ([]Hold, error)) ([]*Lease, error) {
	var all []*Lease
	var ops []history.Op
	round := w.rounds.Add(1)
	for i, place := range at {
		s := &Lease{w: w, at: place, id: fmt.Sprintf("%s-%d%s%d", w.Name, round, Parts, i)}
		op := s.op(history.Acquire)
		op.Try = place.Try
		all, ops = append(all, s), append(ops, op)
	}
	holds, err := take(ctx)
	dead := w.step(ctx, "acquired")
	for i, op := range ops {
		op.Return, op.Outcome = w.Rec.Now(), history.OK
		switch {
		case dead != nil:
			op.Outcome = history.Unknown
		case err != nil:
			op.Outcome = history.Failed
			if ctx.Err() != nil {
				op.Note = check.Waited
			}
		default:
			all[i].hold = holds[i]
			op.Token, op.Until = holds[i].Token(), all[i].until()
			if h, ok := holds[i].(Stored); ok {
				op.Store = h.StoreID()
			}
		}
		w.Rec.Add(op)
		if op.Outcome == history.OK && w.Took != nil {
			w.Took(op, holds[i])
		}
	}
	if dead != nil {
		return nil, errors.Join(ErrDead, dead)
	}
	return all, err
}

// leaveSeveral releases the locks and records it.
func (w *Worker) leaveSeveral(ctx context.Context, all []*Lease, unwatch func()) error {
	lost := all[0].hold.Err()
	for _, s := range all {
		s.renewed()
		if lost == nil {
			s.note(history.Leave, history.OK)
		}
	}
	unwatch()
	var ops []history.Op
	for _, s := range all {
		ops = append(ops, s.op(history.Release))
	}
	err := all[0].hold.Release(ctx)
	dead := w.step(ctx, "released")
	for _, op := range ops {
		op.Return = w.Rec.Now()
		op.Outcome, op.Note = released(dead, err, lost)
		w.Rec.Add(op)
	}
	return dead
}

// CounterEach reads a number under each lock, thinks, and writes the next of each.
func CounterEach(think time.Duration) func(context.Context, []*Lease) error {
	return func(ctx context.Context, all []*Lease) error {
		seen := make([]int64, len(all))
		for i, s := range all {
			var err error
			if seen[i], err = s.access(ctx, history.Read, check.Counter, 0); err != nil {
				return err
			}
		}
		if err := all[0].think(ctx, think); err != nil {
			return err
		}
		for i, s := range all {
			if _, err := s.access(ctx, history.Write, check.Counter, seen[i]+1); err != nil {
				return err
			}
		}
		return all[0].w.step(ctx, "written")
	}
}
