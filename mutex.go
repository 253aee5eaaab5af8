package holdfast

import (
	"context"
	"errors"
)

// Mutex is a lock that one holder at a time may hold, on whatever machine. It
// is a handle: safe for concurrent use, cheap, and the same lock for every
// client that names the same resource.
type Mutex struct {
	acquirer
}

// Lock waits until the lease is granted or ctx ends. Waiters are served first
// come, first served; see WithoutTenure for the order between processes. While
// the store cannot be reached, Lock goes on trying. Errors: ErrNotAcquired
// together with the cause of ctx (and ErrUnavailable, if the store was away
// then); ErrDeadlock under the lease's own context; ErrDenied, ErrMismatch,
// ErrClosed, ErrInvalid at once; ErrNotAcquired and ErrInvalid if three grants in a
// row took so long that their trust windows were over when they came: the TTL is
// too short for the store.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) { return m.lock(ctx, 1) }

// TryLock asks once and never queues. Errors: *HeldError (which is
// ErrNotAcquired) if the resource is held; ErrUnavailable if the store cannot
// be reached; otherwise as Lock.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) { return m.try(ctx, 1) }

// Do runs fn under the lease and releases it, also if fn panics. fn gets the
// lease's Context. The error is that of Lock or that of fn; if the lease was
// lost while fn ran, it is ErrLost as well, even if fn returned nil.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}

// do runs fn and releases the lease.
func (l *Lease) do(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	defer func() {
		// A release that the store did not confirm goes on in the background
		// and does not make the work of fn a failure.
		if rel := l.Release(ctx); errors.Is(rel, ErrLost) {
			err = errors.Join(err, rel)
		}
	}()
	return fn(l.Context())
}
