package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/engine"
)

// rwCapacity is the capacity of an RWMutex. A reader has weight 1 and a writer
// all of it, so it is also the maximum number of readers.
const rwCapacity = 1 << 20

// An RWMutex is a distributed lock with many readers or one writer. It is fair:
// the readers at the front of the queue enter together, and no later reader
// passes a waiting writer, so readers cannot starve a writer. The lease of a
// dead reader expires by its own TTL, even if other readers renew theirs.
//
// Readers of one process share one lease of the store, by name and TTL, unless
// WithoutTenure, WithoutRenewal or WithFallback is set: while no writer waits, a
// further reader makes no call to the store. They have one token and one holder
// ID, and a loss ends the leases of all of them.
type RWMutex struct {
	acquirer
}

// RWMutex returns a handle for a resource with readers and writers. It makes no
// call to the store. Handles with the same name are the same lock.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{lockSpec{kind: engine.KindRW, capacity: rwCapacity, opts: lockOptionsOf(name, opts)}.on(c, name)}
}

// Lock waits until the writer's lease is granted or ctx ends. If ctx carries
// the caller's own reader's lease, Lock returns ErrDeadlock, also with
// WithReentrancy: two readers that both wait to become the writer would wait
// forever. Other errors are those of [Mutex.Lock].
func (rw *RWMutex) Lock(ctx context.Context) (*Lease, error) {
	return rw.acquire(ctx, rwCapacity, andWait)
}

// TryLock makes one attempt to acquire the writer's lease and never queues.
// Errors are those of [Mutex.TryLock].
func (rw *RWMutex) TryLock(ctx context.Context) (*Lease, error) {
	return rw.acquire(ctx, rwCapacity, noWait)
}

// RLock waits until a reader's lease is granted or ctx ends. Errors are those
// of [Mutex.Lock].
func (rw *RWMutex) RLock(ctx context.Context) (*Lease, error) { return rw.acquire(ctx, 1, andWait) }

// TryRLock makes one attempt to acquire a reader's lease and never queues. It
// fails while a writer waits, even if only readers hold the resource. Errors
// are those of [Mutex.TryLock].
func (rw *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return rw.acquire(ctx, 1, noWait) }

// Do calls fn under the writer's lease; see [Mutex.Do].
func (rw *RWMutex) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return do(ctx, rw.Lock, fn)
}

// RDo calls fn under a reader's lease; see [Mutex.Do].
func (rw *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context) error) error {
	return do(ctx, rw.RLock, fn)
}

// Demote turns a writer's lease into a reader's in one step: no other writer
// gets in between, and readers at the front of the queue enter at once. The
// lease keeps its token and its deadline. From the moment of the call the
// caller must not write, whatever Demote returns. It is safe to call Demote
// again.
//
// Errors: ErrNotHeld if l is not, or was not, the writer's lease of an RWMutex,
// if it was released, or if re-entrant leases share it; ErrLost; ErrUnavailable
// if the store did not confirm it: the lease is held, but other readers may not
// have been admitted yet; ErrDenied; ErrClosed.
func (l *Lease) Demote(ctx context.Context) error {
	err := l.grant.demote(ctx, l)
	switch ended := l.Err(); {
	case err == errNotWriter || err == ErrClosed: // whatever else became of the lease
	case errors.Is(ended, ErrReleased):
		err = fmt.Errorf("%w: %w", ErrNotHeld, ended)
	case ended != nil:
		return ended
	case err == nil:
		return nil
	}
	return opError("demote", l.grant.resource(), err)
}
