package workload

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Counter reads a number, thinks, and writes the next: two at once lose an update.
func Counter(think time.Duration) Work { return readWrite(check.Counter, think, 1) }

// Append reads the length of a log, thinks, and writes the next entry.
func Append(think time.Duration) Work { return readWrite(check.Log, think, 1) }

// Sell reads the stock, thinks, and takes one piece unless the stock is empty.
func Sell(think time.Duration) Work { return readWrite(check.Stock, think, -1) }

func readWrite(note string, think time.Duration, by int64) Work {
	return func(ctx context.Context, s *Lease) error {
		seen, err := s.access(ctx, history.Read, note, 0)
		if err != nil {
			return err
		}
		if err := s.think(ctx, think); err != nil {
			return err
		}
		if by < 0 && seen+by < 0 {
			return nil // sold out
		}
		_, err = s.access(ctx, history.Write, note, seen+by)
		return errors.Join(err, s.w.step(ctx, "written"))
	}
}

// WritePair thinks, and then sets both halves of a pair at once, to the time.
func WritePair(think time.Duration) Work {
	return func(ctx context.Context, s *Lease) error {
		if err := s.think(ctx, think); err != nil {
			return err
		}
		_, err := s.access(ctx, history.Write, check.Pair, int64(s.w.Rec.Now())+1)
		return err
	}
}

// ReadPair reads one half of a pair, thinks, and reads the other.
func ReadPair(think time.Duration) Work {
	return func(ctx context.Context, s *Lease) error {
		half, err := s.access(ctx, history.Read, Half, 0)
		if err != nil {
			return err
		}
		if err := s.think(ctx, think); err != nil {
			return err
		}
		_, err = s.access(ctx, history.Read, check.Pair, half)
		return err
	}
}

// Everything is the weight of a writer, and the capacity of a resource of readers
// and writers.
const Everything = 1 << 20

// Pair returns the place and the work of a user of a pair: with weight 1 a reader, with
// weight 2 a writer, otherwise a writer that becomes a reader, see WriteAndReadPair.
func Pair(resource string, weight int, think time.Duration) (Place, Work) {
	at := Place{Resource: resource, Weight: Everything, Capacity: Everything}
	switch weight {
	case 1:
		at.Weight = 1
		return at, ReadPair(think)
	case 2:
		return at, WritePair(think)
	}
	return at, WriteAndReadPair(think)
}

// Demoter is a writer's hold that can become a reader's.
type Demoter interface {
	Hold
	Demote(ctx context.Context) error
}

// WriteAndReadPair writes as a writer and then reads as a reader. The hold has to
// be a Demoter.
func WriteAndReadPair(think time.Duration) Work {
	return func(ctx context.Context, s *Lease) error {
		if err := WritePair(think/2)(ctx, s); err != nil {
			return err
		}
		s.Lowered(1)
		if err := s.Hold().(Demoter).Demote(ctx); err != nil {
			return nil // lost, or the store is unreachable: both are allowed
		}
		return ReadPair(think/2)(ctx, s)
	}
}

// Stand holds the lock for a while and accesses nothing: for semaphores, whose holders the
// check counts by Enter and Leave.
func Stand(think time.Duration) Work {
	return func(ctx context.Context, s *Lease) error { return s.think(ctx, think) }
}

// access accesses the vault if the hold is valid by the state of the lock.
func (s *Lease) access(ctx context.Context, kind history.Kind, note string, value int64) (int64, error) {
	op := s.op(kind) // its time is read before the lock's state, as in enter
	if s.hold.Err() != nil {
		return 0, ErrLost
	}
	op.Note, op.Value, op.Until = note, value, s.until()
	op, err := s.w.Vault.Access(ctx, op)
	if err == nil && op.Outcome == history.Failed {
		err = ErrStale
	}
	return op.Value, err
}

// think waits for a while, or until the lock reports a loss.
func (s *Lease) think(ctx context.Context, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.hold.Lost():
		}
	}
	return s.w.step(ctx, "working")
}
