package holdfast

import (
	"context"
	"errors"
	"fmt"

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
	acquirer
}

// RWMutex returns a handle on a resource for readers and writers. It costs
// nothing until it is used; handles of the same name are the same lock.
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex {
	return &RWMutex{lockSpec{kind: engine.KindRW, capacity: rwCapacity, opts: lockOptionsOf(name, opts)}.on(c, name)}
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

// Demote makes a reader's lease out of a writer's, in one step: no other writer
// comes in between, and readers that wait at the front of the queue enter at
// once. The lease keeps its token and its deadline. From the moment of the call
// the caller must write no more, whatever comes back; calling again is safe.
// Errors: ErrNotHeld if it is not, or was not, the writer's lease of an RWMutex,
// or has been released, or if re-entrant leases stand on it; ErrLost;
// ErrUnavailable: it is held, but others may not be let in yet; ErrDenied,
// ErrClosed.
func (l *Lease) Demote(ctx context.Context) error {
	if s, ok := l.grant.(*fallbackGrant); ok {
		if err := s.demote(l); err != nil {
			return demoteError(l, err)
		}
		return l.Err()
	}
	h, ok := l.grant.(*storeGrant)
	if !ok || h.acquirer.kind != engine.KindRW {
		return opError("demote", l.grant.resource(), fmt.Errorf("%w as the writer of an RWMutex", ErrNotHeld))
	}
	if !h.client().gate.enter() {
		return opError("demote", h.acquirer.name, ErrClosed)
	}
	defer h.client().gate.leave()
	if err := l.Err(); err != nil {
		return demoteError(l, err)
	}
	if err := h.demote(l); err != nil {
		return demoteError(l, err)
	}
	call, cancel := until(ctx, h.client().life)
	defer cancel()
	r := h.Renewal()
	var slow backoff
	for {
		err := h.client().engine.Resize(call, r.Resource, r.Held, 1)
		var gone *engine.NotHeldError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &gone):
			h.lose(h.gone(gone))
			return demoteError(l, l.Err())
		case !errors.Is(err, ErrUnavailable), slow.n == 3, !slow.pause(call):
			return demoteError(l, err)
		}
	}
}

// demoteError is err, unless the lease has ended: then that is what counts.
func demoteError(l *Lease, err error) error {
	ended := l.Err()
	switch {
	case errors.Is(ended, ErrReleased):
		err = fmt.Errorf("%w: %w", ErrNotHeld, ended)
	case ended != nil:
		return ended
	}
	return opError("demote", l.grant.resource(), err)
}

// beReader makes a writer's holding a reader's on this side: nobody re-enters it
// as a writer from here on.
func (h *storeGrant) demote(l *Lease) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.leases.has(l):
		return fmt.Errorf("%w any more", ErrNotHeld) // this very moment
	case h.leases.len() > 1:
		return fmt.Errorf("%w by this lease alone: release the re-entrant ones first", ErrNotHeld)
	case h.weight < rwCapacity && !h.demoted:
		return fmt.Errorf("%w as the writer of an RWMutex", ErrNotHeld)
	}
	h.weight, h.demoted = 1, true
	h.local.Load().demote(1)
	return nil
}
