package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Lease is the right to hold a resource until it is released or lost. It is
// safe for concurrent use. While it is held the client renews it; whether it
// still may be relied on tell Err, Done and Context, which learn of a loss
// before the store can give the resource to another.
type Lease struct {
	grant  grant
	token  uint64
	parent context.Context

	// The mutex is never held while anything else is called: contexts of nested
	// leases ask each other.
	mu    sync.Mutex
	ended error // nil while held; then ErrReleased or a *LostError
	ctx   *leaseContext
	done  chan struct{}
	onEnd func(why error) // hears of the end; nil: nobody
}

// Token returns the fencing token: it is greater than those of all leases of
// the resource before. Give it along with every write that the lease protects.
// The lease of a Multi has several, see Tokens; this is that of its first name.
// It is 0 if the store did not grant the lease, see Fallback.
func (l *Lease) Token() uint64 { return l.token }

// Resource returns the name of the resource; for a Multi its first name, as given. Tokens
// has all of them.
func (l *Lease) Resource() string { return l.grant.resource() }

// Tokens returns the fencing tokens by resource name.
func (l *Lease) Tokens() map[string]uint64 {
	return l.grant.tokens(l)
}

// HolderID returns the identity under which the store knows the lease, for a
// Multi that of its first name.
func (l *Lease) HolderID() string { return l.grant.id() }

// Context returns a context of the one given to Lock that is also cancelled,
// with ErrReleased or a *LostError as cause, when the lease ends. Its Err is
// never nil after the trust window has closed, even if the process was paused
// meanwhile: it looks at the clock. A context derived from it, as by
// context.WithTimeout, does not. It is cancelled when a timer of the client has
// run, which after a pause may be a moment later, so ask the lease's own Context,
// or Err, before a step that relies on the lease. A Lock under it knows what the
// caller holds already: see WithReentrancy and ErrDeadlock.
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

// Done returns a channel that is closed when the lease ends. Like Err it looks
// at the clock.
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
// and a *LostError (which is ErrLost) after a loss. It looks at the clock: a
// process that was paused past its trust window gets ErrLost at once.
func (l *Lease) Err() error {
	if err := l.state(); err != nil {
		return err
	}
	if l.grant.open() {
		return nil
	}
	// The goroutine that ended the grant may not have ended this lease yet.
	return l.end(l.grant.ending())
}

func (l *Lease) state() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// Deadline returns the end of the trust window as known now. A renewal moves it.
// That of a Multi is the earliest of its resources.
func (l *Lease) Deadline() time.Time { return l.grant.deadline() }

// Release gives the lease back. Its Context is cancelled first. Also with a ctx
// that has ended, Release reaches the store, in a second at most. Errors:
// ErrLost if the lease was lost before; release also one that an operator broke,
// since others wait for that until its TTL is over; ErrNotHeld (and ErrReleased) if it had
// been released; ErrUnavailable if the store did not confirm it: then the client
// goes on trying in the background, and the lease ends by its TTL at the latest. A
// nil ctx is as context.Background(): a deferred Release must not leave a lease
// behind.
func (l *Lease) Release(ctx context.Context) error {
	if ctx == nil {
		ctx = context.Background()
	}
	_ = l.grant.open() // what has expired is lost now, and leaves nothing to give back
	last, held := l.grant.remove(l)
	if !held {
		err := l.end(l.grant.ending())
		if errors.Is(err, ErrReleased) {
			return opError("release", l.grant.resource(), fmt.Errorf("%w: %w", ErrNotHeld, err))
		}
		return err
	}
	why := l.end(ErrReleased)
	var err error
	if last {
		err = l.grant.releaseLast(ctx, l)
	}
	if errors.Is(why, ErrLost) {
		return why // it was broken
	}
	return err
}

// Detach ends this Lease without releasing the resource and returns a ticket
// with which Client.Adopt, here or in another process, takes it over before its
// TTL runs out. The lease is renewed once, so that the full TTL is left; after
// that nobody renews it until it is adopted. Errors: ErrLost, ErrNotHeld if it
// was released, or if re-entrant leases stand on it; errors.ErrUnsupported for
// a lease of several resources; ErrUnavailable, in which case nothing has changed.
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

// finish ends the lease towards its holder and returns how it ended: by why, or
// as it had before.
func (l *Lease) end(why error) error {
	l.mu.Lock()
	first := l.ended == nil
	if first {
		l.ended = why
	}
	why, ctx, done, told := l.ended, l.ctx, l.done, l.onEnd
	l.mu.Unlock()
	if ctx != nil {
		ctx.cancel(why)
	}
	if first && done != nil {
		close(done)
	}
	if first && told != nil {
		told(why)
	}
	return why
}

// watch makes told hear of the end, at once if it has come already.
func (l *Lease) notify(told func(why error)) {
	l.mu.Lock()
	l.onEnd = told
	ended := l.ended
	l.mu.Unlock()
	if ended != nil {
		told(ended)
	}
}
