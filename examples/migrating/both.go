// Package migrating has the same work under other locks and under Holdfast, and
// a lock for the time between, which holds both. docs/MIGRATING.md explains it.
package migrating

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// OldLock is a lock of the library that a fleet leaves.
type OldLock interface {
	// Lock waits until the lock is held or ctx ends.
	Lock(ctx context.Context) error
	// Extend renews the lock for its whole TTL, and fails if it is not held any more.
	Extend(ctx context.Context) error
	// Unlock releases the lock.
	Unlock(ctx context.Context) error
}

// Both runs work while it holds a mutex and the old lock as well: Holdfast first,
// so that only one new client at a time competes with the old ones. The old lock
// is extended at the given interval, a third of its TTL at most. work gets a
// context that ends when either of the two is lost.
func Both(ctx context.Context, mutex *holdfast.Mutex, old OldLock, every time.Duration, work func(ctx context.Context) error) error {
	return mutex.Do(ctx, func(ctx context.Context) error {
		if err := old.Lock(ctx); err != nil {
			return err
		}
		defer old.Unlock(context.WithoutCancel(ctx))
		ctx, lost := context.WithCancelCause(ctx)
		extended := make(chan error, 1)
		go func() { extended <- extend(ctx, old, every, lost) }()
		err := work(ctx)
		lost(nil) // ends extend, if it still runs
		return errors.Join(err, <-extended)
	})
}

// extend returns nil when ctx ends, and otherwise why the old lock was lost.
func extend(ctx context.Context, old OldLock, every time.Duration, lost context.CancelCauseFunc) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		attempt, cancel := context.WithTimeout(ctx, every)
		err := old.Extend(attempt)
		cancel()
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("the old lock is lost: %w", err)
			lost(err)
			return err
		}
	}
}
