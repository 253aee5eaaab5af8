package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/engine"
)

// MaxCapacity is the largest capacity of a Semaphore.
const MaxCapacity = 1 << 30

// Semaphore is a resource of which several holders may have a part: a lease
// weighs so many units of the capacity. Waiters are served first come, first
// served; a heavy request is not passed by lighter ones. What a dead holder had
// comes back within its TTL.
type Semaphore struct {
	acquirer
}

// Semaphore returns a handle on a resource with a capacity of 1 to MaxCapacity
// units. All its users have to name the same capacity (ErrMismatch otherwise,
// while the resource is in use).
func (c *Client) Semaphore(name string, capacity int, opts ...LockOption) *Semaphore {
	o := lockOptionsOf(name, opts)
	if capacity < 1 || capacity > MaxCapacity {
		o.fail(optionError("capacity %d: use 1 to %d", capacity, MaxCapacity))
	}
	return &Semaphore{lockSpec{kind: engine.KindSemaphore, capacity: capacity, opts: o}.on(c, name)}
}

// Acquire waits until a lease of the weight is granted or ctx ends. A lease of
// the caller's own is no hindrance and not entered again: it counts as any
// other's. Errors as for Mutex.Lock, and ErrTooHeavy if the weight is above the
// capacity.
func (s *Semaphore) Acquire(ctx context.Context, weight int) (*Lease, error) {
	if err := s.check(weight); err != nil {
		return nil, err
	}
	return s.lock(ctx, weight)
}

// TryAcquire asks once and never queues. Errors as for Mutex.TryLock, and
// ErrTooHeavy.
func (s *Semaphore) TryAcquire(ctx context.Context, weight int) (*Lease, error) {
	if err := s.check(weight); err != nil {
		return nil, err
	}
	return s.try(ctx, weight)
}

// Do runs fn under a lease of the weight; see Mutex.Do.
func (s *Semaphore) Do(ctx context.Context, weight int, fn func(ctx context.Context) error) error {
	l, err := s.Acquire(ctx, weight)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}

func (s *Semaphore) check(weight int) error {
	switch {
	case s.opts.err != nil:
		return s.opts.err
	case weight < 1:
		return optionError("weight %d: use 1 or more", weight)
	case weight > s.capacity:
		return opError("acquire", s.name, ErrTooHeavy)
	}
	return nil
}
