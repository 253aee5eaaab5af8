package holdfast

import (
	"context"
	"errors"
)

// A Mutex is a distributed lock with one holder at a time. It is a handle: safe
// for concurrent use, cheap, and the same lock for every client that uses the
// same resource name.
type Mutex struct {
	acquirer
}

// Lock waits until the lease is granted or ctx ends. Waiters are served first
// come, first served; see [WithoutTenure] for the order between processes.
// While the store is unavailable, Lock retries.
//
// If ctx ends the wait, the error matches ErrNotAcquired and
// context.Cause(ctx), and also ErrUnavailable if the store was unavailable at
// that time. ErrDeadlock (ctx carries the caller's own lease of the resource),
// ErrDenied, ErrMismatch, ErrClosed and ErrInvalid are returned at once. The
// error matches ErrNotAcquired and ErrInvalid if three grants in a row arrived
// after their trust windows had closed: the TTL is too short for the store.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.acquire(ctx, 1, andWait) }

// TryLock makes one attempt and never queues. It returns a *HeldError, which
// matches ErrNotAcquired, if the resource is held, and ErrUnavailable if the
// store is unavailable. Other errors are those of Lock.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.acquire(ctx, 1, noWait) }

// Do acquires the lease, calls fn with the lease's Context, and releases the
// lease, also if fn panics. It returns the error of Lock or of fn. If the lease
// was lost while fn ran, the error also matches ErrLost, even if fn returned
// nil.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return do(ctx, m.Lock, fn)
}

// do acquires a lease by lock, runs fn under it and releases it.
func do(ctx context.Context, lock func(ctx context.Context) (*Lease, error), fn func(ctx context.Context) error) (err error) {
	l, err := lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// A release that the store did not confirm is retried in the background
		// and does not make the work of fn a failure.
		if rel := l.Release(ctx); errors.Is(rel, ErrLost) {
			err = errors.Join(err, rel)
		}
	}()
	return fn(l.Context())
}
