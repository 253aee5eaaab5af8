// Package workload is the work of clients with a lock: they acquire it, work on a
// protected value, and release it. Each step is recorded in the form that package check
// requires. The protected side is a Vault of the lab.
//
// A workload does not depend on faults. Between two steps it calls Worker.Step, in which
// the lab may stop the client, let time pass or kill it.
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

// Hold is what the lock reports about a lease. Every subject.Hold implements it.
type Hold interface {
	// Token is the fencing token; 0: the lock has none.
	Token() uint64
	// Until is the end of the trust window; the zero time: the lock has none.
	Until() time.Time
	// Lost is closed when the lock reports a loss, or the release; nil: never.
	Lost() <-chan struct{}
	// Err is nil while the hold is valid by the state of the lock.
	Err() error
	// Release releases the hold.
	Release(ctx context.Context) error
}

// Sharer is a Hold that may share a lease of the store with others of its client.
type Sharer interface {
	Hold
	// SharedID is the ID of that lease; "": it shares none.
	SharedID() string
}

// Stored is a Hold of a lease that has an ID in the store.
type Stored interface {
	Hold
	StoreID() string
}

// Take acquires a hold: Acquire or Try of a subject with its resource, or any other
// primitive.
type Take func(ctx context.Context) (Hold, error)

// Place is a resource with weight and capacity; zero means 1. Try says that the acquire does not wait.
type Place struct {
	Resource         string
	Weight, Capacity int
	Try              bool
}

// Errors that end a round early; test with errors.Is.
var (
	// ErrDead: the client was killed. A Step that kills it returns ErrDead, or an error
	// that matches it.
	ErrDead = errors.New("the client is dead")
	// ErrLost: the lock reported the end of the hold, so the work was stopped.
	ErrLost = errors.New("the lock is no longer held")
	// ErrStale: the protected side refused the token.
	ErrStale = errors.New("the token is stale")
)

// Worker is one client at work. It may run several rounds at once.
type Worker struct {
	// Name is the client's in the history.
	Name string
	// Rec records the history.
	Rec *history.Recorder
	// Vault is the protected side.
	Vault Vault
	// Step is called between steps: "acquired" (Take has returned), "working" (the
	// value was read and the work on it begins), "written", "lost", "released". An
	// error ends the round at that step. Nil: no call.
	Step func(ctx context.Context, step string) error
	// Took is called with each hold and the record of its acquire, unless it is nil.
	Took func(op history.Op, h Hold)

	rounds atomic.Int64
}

// Work is the work of a client while it holds.
type Work func(ctx context.Context, s *Lease) error

// Lease is an acquired lock, while its holder works under it.
type Lease struct {
	w    *Worker
	at   Place
	id   string
	hold Hold
}

// Round acquires the lock, works and releases it. The history records every step; the
// error is the reason why the work was not done: that of take, ErrDead, ErrLost or
// ErrStale.
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

// take acquires the lock and records the result.
func (w *Worker) take(ctx context.Context, at Place, take Take) (*Lease, error) {
	s := &Lease{w: w, at: at, id: fmt.Sprintf("%s-%d", w.Name, w.rounds.Add(1))}
	op := s.op(history.Acquire)
	op.Try = at.Try
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
	if h, ok := hold.(Sharer); ok {
		op.Shared = h.SharedID()
	}
	if h, ok := hold.(Stored); ok {
		op.Store = h.StoreID()
	}
	w.Rec.Add(op)
	if w.Took != nil {
		w.Took(op, hold)
	}
	return s, nil
}

// watch records the moment at which the lock reports a loss.
func (s *Lease) watch(ctx context.Context, ended <-chan struct{}) (done chan struct{}) {
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
			select {
			case <-lost: // both at once
			default:
				return
			}
		case <-lost:
		}
		if s.w.step(ctx, "lost") == nil {
			s.renewed() // by then the window is the last one
			s.note(history.Lost, history.OK)
		}
	}()
	return done
}

// enter begins to rely on the lock. The time is read before the lock's state, because a
// process can be stopped right after it has read a valid state.
func (s *Lease) enter() error {
	op := s.op(history.Enter)
	if s.hold.Err() != nil {
		return ErrLost
	}
	op.Return, op.Outcome, op.Until = op.Call, history.OK, s.until()
	s.w.Rec.Add(op)
	return nil
}

// leave releases the lock. The watcher is stopped first: a release is not a loss.
func (s *Lease) leave(ctx context.Context, unwatch func()) error {
	s.renewed()
	lost := s.hold.Err()
	if lost == nil {
		s.note(history.Leave, history.OK)
	}
	unwatch()
	op := s.op(history.Release)
	err := s.hold.Release(ctx)
	dead := s.w.step(ctx, "released")
	op.Return = s.w.Rec.Now()
	op.Outcome, op.Note = released(dead, err, lost)
	s.w.Rec.Add(op)
	return dead
}

// released returns the outcome of a release of a hold that was lost before or not, by a client that was killed after it or not.
func released(dead, err, lost error) (outcome history.Outcome, note string) {
	switch {
	case dead != nil:
		return history.Unknown, ""
	case err == nil:
		return history.OK, ""
	case lost != nil:
		return history.Failed, err.Error()
	}
	return history.Unknown, err.Error()
}

// renewed records the new end of the trust window.
func (s *Lease) renewed() {
	if until := s.until(); until != 0 {
		op := s.op(history.Renew)
		op.Return, op.Outcome, op.Until = op.Call, history.OK, until
		s.w.Rec.Add(op)
	}
}

// Lowered records a lower weight of the lease from now on; call it before the lock lowers
// the weight.
func (s *Lease) Lowered(weight int) {
	op := s.op(history.Renew)
	op.Return, op.Outcome, op.Weight = op.Call, history.OK, weight
	s.at.Weight = weight
	s.w.Rec.Add(op)
}

// Hold returns the hold of the lease.
func (s *Lease) Hold() Hold { return s.hold }

// op begins the record of an operation of this lease.
func (s *Lease) op(kind history.Kind) history.Op {
	op := history.Op{Client: s.w.Name, Kind: kind, Resource: s.at.Resource, Holder: s.id,
		Call: s.w.Rec.Now(), Capacity: s.at.Capacity}
	if s.hold != nil {
		op.Token = s.hold.Token()
	}
	if kind != history.Renew { // a Weight of a Renew means a changed weight
		op.Weight = s.at.Weight
	}
	return op
}

func (s *Lease) note(kind history.Kind, outcome history.Outcome) {
	op := s.op(kind)
	op.Return, op.Outcome = op.Call, outcome
	s.w.Rec.Add(op)
}

// until returns the end of the trust window on the clock of the history.
func (s *Lease) until() time.Duration {
	end := s.hold.Until()
	if end.IsZero() {
		return 0
	}
	return s.w.Rec.At(end)
}
