// Package workload is what clients do with a lock: they take it, work on
// something that it protects, and give it back. Each step is recorded as package
// check wants it. The protected side is a Vault that the lab owns.
//
// A workload knows nothing of faults. Between two steps it calls Worker.Step,
// where the lab may stop the client, let time pass or kill it.
package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Hold is a stay as the lock shows it. Every subject.Hold is one.
type Hold interface {
	// Token is the fencing token; 0: the lock has none.
	Token() uint64
	// Until is the end of the trust window; the zero time: the lock has none.
	Until() time.Time
	// Lost is closed when the lock tells of a loss, or of the release; nil: never.
	Lost() <-chan struct{}
	// Err is nil while the lock says that all is well.
	Err() error
	// Release gives it back.
	Release(ctx context.Context) error
}

// Take asks a lock for a hold: Acquire or Try of a subject with its resource, or
// any other primitive.
type Take func(ctx context.Context) (Hold, error)

// Place is what is asked for. Zero weight and capacity stand for 1.
type Place struct {
	Resource         string
	Weight, Capacity int
}

// Errors that end a round early; test with errors.Is.
var (
	// ErrDead: the client was killed. A Step that kills returns it, or an error
	// that is it.
	ErrDead = errors.New("the client is dead")
	// ErrTold: the lock said that the hold is over, so the work was left.
	ErrTold = errors.New("the lock is no longer held")
	// ErrStale: the protected side refused the token.
	ErrStale = errors.New("the token is stale")
)

// Worker is one client at work. It may run several rounds at once.
type Worker struct {
	// Name is the client's in the history.
	Name string
	// Rec takes the history.
	Rec *history.Recorder
	// Vault is the protected side.
	Vault Vault
	// Step is called between steps: "acquired" (the lock has answered), "working"
	// (what it read is now being worked on), "written", "told", "released". An
	// error ends the round there and then. Nil: nothing happens.
	Step func(ctx context.Context, step string) error
	// Took hears of each hold with the record of its acquire. Nil: nobody does.
	Took func(op history.Op, h Hold)

	rounds atomic.Int64
}

// Work is what a client does while it holds.
type Work func(ctx context.Context, s *Stay) error

// Stay is one time in possession, while it lasts.
type Stay struct {
	w    *Worker
	at   Place
	id   string
	hold Hold
}

// Round takes the lock, works and gives it back. Whatever happens stands in the
// history; the error says why the work was not done. Errors: that of take,
// ErrDead, ErrTold, ErrStale.
func (w *Worker) Round(ctx context.Context, at Place, take Take, work Work) error {
	s, err := w.take(ctx, at, take)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	watched := s.watch(ctx, ended)
	err = s.enter()
	if err == nil {
		err = work(ctx, s)
	}
	if errors.Is(err, ErrDead) {
		close(ended)
		<-watched
		s.renewed()
		s.note(history.Leave, history.OK)
		return err
	}
	return errors.Join(err, s.leave(ctx, func() { close(ended); <-watched }))
}

func (w *Worker) step(ctx context.Context, name string) error {
	if w.Step == nil {
		return nil
	}
	return w.Step(ctx, name)
}

// take asks for the lock and records the answer.
func (w *Worker) take(ctx context.Context, at Place, take Take) (*Stay, error) {
	s := &Stay{w: w, at: at, id: fmt.Sprintf("%s-%d", w.Name, w.rounds.Add(1))}
	op := s.op(history.Acquire)
	hold, err := take(ctx)
	if dead := w.step(ctx, "acquired"); dead != nil {
		op.Return, op.Outcome = w.Rec.Now(), history.Unknown
		w.Rec.Add(op)
		return nil, errors.Join(ErrDead, dead)
	}
	op.Return = w.Rec.Now()
	if err != nil {
		op.Outcome = history.Failed
		if ctx.Err() != nil {
			op.Note = check.Waited
		}
		w.Rec.Add(op)
		return nil, err
	}
	s.hold = hold
	op.Outcome, op.Token, op.Until = history.OK, hold.Token(), s.until()
	w.Rec.Add(op)
	if w.Took != nil {
		w.Took(op, hold)
	}
	return s, nil
}

// watch records the moment in which the lock tells of a loss.
func (s *Stay) watch(ctx context.Context, ended <-chan struct{}) (done chan struct{}) {
	done = make(chan struct{})
	lost := s.hold.Lost()
	if lost == nil {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		select {
		case <-ended:
		case <-lost:
			if s.w.step(ctx, "told") == nil {
				s.renewed() // by then the window is the last one
				s.note(history.Lost, history.OK)
			}
		}
	}()
	return done
}

// enter begins to rely on the lock. The moment is taken before the lock is asked:
// a process can stand still right after it was told that all is well.
func (s *Stay) enter() error {
	op := s.op(history.Enter)
	if s.hold.Err() != nil {
		return ErrTold
	}
	op.Return, op.Outcome, op.Until = op.Call, history.OK, s.until()
	s.w.Rec.Add(op)
	return nil
}

// leave gives the lock back. The watcher is stopped first: a release is no loss.
func (s *Stay) leave(ctx context.Context, unwatch func()) error {
	s.renewed()
	told := s.hold.Err()
	if told == nil {
		s.note(history.Leave, history.OK)
	}
	unwatch()
	op := s.op(history.Release)
	err := s.hold.Release(ctx)
	dead := s.w.step(ctx, "released")
	op.Return = s.w.Rec.Now()
	switch {
	case dead != nil:
		op.Outcome = history.Unknown
	case err == nil:
		op.Outcome = history.OK
	case told != nil:
		op.Outcome, op.Note = history.Failed, err.Error()
	default:
		op.Outcome, op.Note = history.Unknown, err.Error()
	}
	s.w.Rec.Add(op)
	return dead
}

// renewed records how far the trust window has come.
func (s *Stay) renewed() {
	if until := s.until(); until != 0 {
		op := s.op(history.Renew)
		op.Return, op.Outcome, op.Until = op.Call, history.OK, until
		s.w.Rec.Add(op)
	}
}

// Lowered records that the stay weighs less from now on; call it before the lock
// is asked for that.
func (s *Stay) Lowered(weight int) {
	op := s.op(history.Renew)
	op.Return, op.Outcome, op.Weight = op.Call, history.OK, weight
	s.at.Weight = weight
	s.w.Rec.Add(op)
}

// Hold is what the lock gave.
func (s *Stay) Hold() Hold { return s.hold }

// op begins the record of an operation of this stay.
func (s *Stay) op(kind history.Kind) history.Op {
	op := history.Op{Client: s.w.Name, Kind: kind, Resource: s.at.Resource, Holder: s.id,
		Call: s.w.Rec.Now(), Capacity: s.at.Capacity}
	if s.hold != nil {
		op.Token = s.hold.Token()
	}
	if kind != history.Renew { // there it says that the weight has changed
		op.Weight = s.at.Weight
	}
	return op
}

func (s *Stay) note(kind history.Kind, outcome history.Outcome) {
	op := s.op(kind)
	op.Return, op.Outcome = op.Call, outcome
	s.w.Rec.Add(op)
}

// until is the end of the trust window on the clock of the history.
func (s *Stay) until() time.Duration {
	end := s.hold.Until()
	if end.IsZero() {
		return 0
	}
	return s.w.Rec.At(end)
}
