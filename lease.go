package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Lease is the right to hold a resource until it is released or lost. It is
// safe for concurrent use. The client renews it while it is held. Use Err, Done
// or Context to check whether it is still valid; they report a loss before the
// store can grant the resource to another.
type Lease struct {
	grant  grant
	token  uint64
	parent context.Context
	place  uint32 // in the set of its grant
	since  uint32 // of a shared grant: start after that of the grant's first lease, in microseconds; see start

	// The mutex is never held while another function is called: the contexts of
	// nested leases call each other.
	mu    sync.Mutex
	ended error // nil while held; then ErrReleased or a *LostError
	ctx   *leaseContext
	done  chan struct{}
	onEnd func(why error) // called when the lease ends; may be nil
}

// Token returns the fencing token, which is greater than the tokens of all
// earlier leases of the resource. For a reader of an RWMutex, it is greater than
// those of all earlier writers and smaller than those of all later ones, and
// readers of one process may have the same. Send it with every write that the
// lease protects. For a Multi it is the token of the first name; [Lease.Tokens]
// returns all. It is 0 if the store did not grant the lease; see
// [Lease.Fallback].
func (l *Lease) Token() uint64 { return l.token }

// Resource returns the name of the resource, and for a Multi the first name as
// given.
func (l *Lease) Resource() string { return l.grant.resource() }

// Tokens returns the fencing tokens by resource name.
func (l *Lease) Tokens() map[string]uint64 {
	return l.grant.tokens(l)
}

// HolderID returns the identity of the lease in the store, and for a Multi that
// of the first name.
func (l *Lease) HolderID() string { return l.grant.id() }

// Context returns a context derived from the one given to Lock. It is cancelled
// when the lease ends, with ErrReleased or a *LostError as its cause.
//
// Its Err method checks the clock, so it is never nil after the trust window
// has closed, even if the process was paused meanwhile. A context derived from
// it, as by context.WithTimeout, does not check the clock: a timer of the
// client cancels it, which after a pause may be a moment later, and after a
// suspend of the machine, which timers do not see, up to a second. The same
// holds for a goroutine that waits on Done. Therefore check the lease's own
// Context, or Err, before a step that relies on the lease.
//
// The context carries the lease: see [WithReentrancy], [ErrDeadlock] and
// [LeaseFromContext].
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	ctx := l.ctx
	l.mu.Unlock()
	if ctx != nil {
		return ctx
	}
	inner, cancel := context.WithCancelCause(l.parent)
	fresh := &leaseContext{Context: inner, lease: l, cancel: cancel}
	l.mu.Lock()
	if l.ctx == nil {
		l.ctx = fresh
	}
	ctx, ended := l.ctx, l.ended
	l.mu.Unlock()
	switch {
	case ctx != fresh:
		cancel(nil) // another caller was quicker
	case ended != nil:
		cancel(ended)
	}
	return ctx
}

// Done returns a channel that is closed when the lease ends. Like Err, it
// checks the clock.
func (l *Lease) Done() <-chan struct{} {
	_ = l.Err()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.ended != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err returns nil while the lease is held, ErrReleased after Release or Detach,
// and a *LostError, which matches ErrLost, after a loss. It checks the clock:
// in a process that was paused past its trust window it returns ErrLost at
// once.
func (l *Lease) Err() error {
	if err := l.state(); err != nil {
		return err
	}
	if l.grant.open() {
		return nil
	}
	// The goroutine that ended the grant may not have ended this lease yet.
	return l.end(l.grant.endError())
}

func (l *Lease) state() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// Deadline returns the end of the trust window. A renewal moves it. For a Multi
// it is the earliest of its resources.
func (l *Lease) Deadline() time.Time { return l.grant.deadline() }

// Release releases the lease. It cancels the lease's Context first. If ctx has
// ended already, Release still sends the request and returns within a second. A
// nil ctx is treated as context.Background(), so that a deferred Release leaves
// no lease behind.
//
// Errors: ErrLost if the lease was lost before; ErrNotHeld and ErrReleased if
// it was released before; ErrUnavailable if the store did not confirm the
// release: the client then retries in the background, and the lease expires by
// its TTL at the latest. Also release a lease that an operator broke: otherwise
// others wait until its TTL is over.
func (l *Lease) Release(ctx context.Context) error {
	if ctx == nil {
		ctx = context.Background()
	}
	_ = l.grant.open() // an expired lease is lost now, and there is nothing to release
	return l.grant.release(ctx, l, 0)
}

// Detach ends this Lease without releasing the resource and returns a ticket.
// [Client.Adopt], here or in another process, takes over the lease with it,
// before the TTL runs out. Detach renews the lease once, so that the full TTL
// is left; after that it is not renewed until it is adopted.
//
// Errors: ErrLost; ErrNotHeld if the lease was released, or if re-entrant leases
// or other readers of the process share it; errors.ErrUnsupported for a lease of
// several resources; ErrUnavailable, in which case nothing has changed.
func (l *Lease) Detach(ctx context.Context) (ticket string, err error) {
	needContext(ctx)
	if err := l.Err(); err != nil {
		if errors.Is(err, ErrReleased) {
			err = fmt.Errorf("%w: %w", ErrNotHeld, err)
		}
		return "", opError("detach", l.grant.resource(), err)
	}
	return l.grant.detach(ctx, l)
}

// end ends the lease and returns how it ended: by why, or earlier.
func (l *Lease) end(why error) error {
	l.mu.Lock()
	first := l.ended == nil
	if first {
		l.ended = why
	}
	why, ctx, done, onEnd := l.ended, l.ctx, l.done, l.onEnd
	l.mu.Unlock()
	if ctx != nil {
		ctx.cancel(why)
	}
	if first && done != nil {
		close(done)
	}
	if first && onEnd != nil {
		onEnd(why)
	}
	return why
}

// endReleased ends a lease that its grant has removed. It returns an error if the lease
// was not held, or was broken before.
func (l *Lease) endReleased(held bool) error {
	if !held {
		err := l.end(l.grant.endError())
		if errors.Is(err, ErrReleased) {
			return opError("release", l.grant.resource(), fmt.Errorf("%w: %w", ErrNotHeld, err))
		}
		return err
	}
	if why := l.end(ErrReleased); errors.Is(why, ErrLost) {
		return why
	}
	return nil
}

// notify sets the function that is called when the lease ends: at once if it
// has ended already.
func (l *Lease) notify(onEnd func(why error)) {
	l.mu.Lock()
	l.onEnd = onEnd
	ended := l.ended
	l.mu.Unlock()
	if ended != nil {
		onEnd(ended)
	}
}
