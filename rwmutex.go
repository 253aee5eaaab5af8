package holdfast

import (
	"context"

	"github.com/holdfast-go/holdfast/engine"
)

// rwCapacity is the capacity of an RWMutex: a reader weighs 1 and a writer all
// of it, so it is also how many readers fit at once.
const rwCapacity = 1 << 20

// RWMutex is a lock that many readers or one writer may hold. It is fair: the
// readers at the front of the queue enter together, and a writer that waits lets
// no later reader pass, so a stream of readers never starves it. A reader that
// dies goes by its own TTL, although others keep renewing theirs.
type RWMutex struct {
	locker
}

// RWMutex returns a handle on a resource for readers and writers. It costs
// nothing until it is used; handles of the same name are the same lock.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{locker{
		c: c, name: name, kind: engine.KindRW, capacity: rwCapacity,
		opts: lockOptionsOf(name, opts),
	}}
}

// Lock waits until the writer's lease is granted or ctx ends. Under the caller's
// own reader's lease it is ErrDeadlock, also with WithReentrancy: a reader cannot
// become a writer while another might want the same. Errors as for Mutex.Lock.
func (rw *RWMutex) Lock(ctx context.Context) (*Lease, error) { return rw.lock(ctx, rwCapacity) }

// TryLock asks for the writer's lease once and never queues. Errors as for
// Mutex.TryLock.
func (rw *RWMutex) TryLock(ctx context.Context) (*Lease, error) { return rw.try(ctx, rwCapacity) }

// RLock waits until a reader's lease is granted or ctx ends. Errors as for
// Mutex.Lock.
func (rw *RWMutex) RLock(ctx context.Context) (*Lease, error) { return rw.lock(ctx, 1) }

// TryRLock asks for a reader's lease once and never queues. It fails while a
// writer waits, although readers hold. Errors as for Mutex.TryLock.
func (rw *RWMutex) TryRLock(ctx context.Context) (*Lease, error) { return rw.try(ctx, 1) }

// Do runs fn under the writer's lease; see Mutex.Do.
func (rw *RWMutex) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	l, err := rw.Lock(ctx)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}

// RDo runs fn under a reader's lease; see Mutex.Do.
func (rw *RWMutex) RDo(ctx context.Context, fn func(ctx context.Context) error) error {
	l, err := rw.RLock(ctx)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}
