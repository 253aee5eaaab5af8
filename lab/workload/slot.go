package workload

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Slot identifies work that must be done once a slot.
type Slot struct {
	Resource string
	Number   int64
	// Begins is how often a run may begin: once, or again after a failure.
	Begins Begins
	// Name, if it is set, returns the resource once a run has begun, from its context.
	Name func(ctx context.Context) string
}

// Begins is a promise about how often runs begin.
type Begins uint8

// The promises.
const (
	BeginsAgain Begins = iota // after a failure
	BeginsOnce
)

// Once runs slot work through run, which is Job.Run or Client.Once with the slot
// bound, and records what came of it. The function that run calls thinks, and
// fails if fail says so.
func (w *Worker) Once(ctx context.Context, slot Slot, think time.Duration, fail error,
	run func(ctx context.Context, fn func(context.Context) error) (ran bool, err error)) error {
	op := history.Op{Client: w.Name, Kind: history.Run, Resource: slot.Resource, Value: slot.Number}
	if slot.Begins == BeginsOnce {
		op.Note = check.Once
	}
	begun := false
	ran, err := run(ctx, func(inner context.Context) error {
		if dead := w.step(ctx, "working"); dead != nil {
			return errors.Join(ErrDead, dead)
		}
		begun, op.Call = true, w.Rec.Now()
		if slot.Name != nil {
			op.Resource = slot.Name(inner)
		}
		t := time.NewTimer(think)
		defer t.Stop()
		select {
		case <-t.C:
		case <-inner.Done():
			return context.Cause(inner)
		}
		if dead := w.step(ctx, "written"); dead != nil {
			return errors.Join(ErrDead, dead)
		}
		return fail
	})
	if !begun {
		return err
	}
	op.Return, op.Outcome = w.Rec.Now(), history.Failed
	if ran && err == nil && w.step(ctx, "released") == nil {
		op.Outcome = history.OK
	}
	w.Rec.Add(op)
	return err
}
