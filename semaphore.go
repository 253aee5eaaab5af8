package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/engine"
)

// MaxCapacity is the largest capacity of a Semaphore.
const MaxCapacity = 1 << 30

// A Semaphore is a resource with a capacity that several holders share. The
// weight of a lease is the number of units it takes. Waiters are served first
// come, first served: light requests do not pass a heavy one. The units of a
// dead holder are free again within its TTL.
type Semaphore struct {
	acquirer
}

// Semaphore returns a handle for a resource with a capacity of 1 to MaxCapacity
// units. It makes no call to the store. All users must use the same capacity;
// otherwise, while the resource is in use, they get ErrMismatch.
func (c *Client) Semaphore(name string, capacity int, opts ...LockOption) *Semaphore {
	o := lockOptionsOf(name, opts)
	if capacity < 1 || capacity > MaxCapacity {
		o.fail(optionError("capacity %d: use 1 to %d", capacity, MaxCapacity))
	}
	return &Semaphore{lockSpec{kind: engine.KindSemaphore, capacity: capacity, opts: o}.on(c, name)}
}

// Acquire waits until a lease of the given weight is granted or ctx ends.
// Acquire is not reentrant: each call takes more capacity. Errors are those of
// [Mutex.Lock], and ErrTooHeavy if the weight is above the capacity.
func (s *Semaphore) Acquire(ctx context.Context, weight int) (*Lease, error) {
	if err := s.check(weight); err != nil {
		return nil, err
	}
	return s.acquire(ctx, weight, andWait)
}

// TryAcquire makes one attempt and never queues. Errors are those of
// [Mutex.TryLock], and ErrTooHeavy if the weight is above the capacity.
func (s *Semaphore) TryAcquire(ctx context.Context, weight int) (*Lease, error) {
	if err := s.check(weight); err != nil {
		return nil, err
	}
	return s.acquire(ctx, weight, noWait)
}

// Do calls fn under a lease of the given weight; see [Mutex.Do].
func (s *Semaphore) Do(ctx context.Context, weight int, fn func(ctx context.Context) error) error {
	return do(ctx, func(ctx context.Context) (*Lease, error) { return s.Acquire(ctx, weight) }, fn)
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
