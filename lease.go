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
	holding *holding
	token   uint64
	parent  context.Context

	mu     sync.Mutex
	ended  error // nil while held; then ErrReleased or a *LostError
	ctx    *leaseContext
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// Token returns the fencing token: it is greater than those of all leases of
// the resource before. Give it along with every write that the lease protects.
func (l *Lease) Token() uint64 { return l.token }

// Tokens returns the fencing tokens by resource name.
func (l *Lease) Tokens() map[string]uint64 {
	return map[string]uint64{l.holding.lk.name: l.token}
}

// HolderID returns the identity under which the store knows the lease.
func (l *Lease) HolderID() string { return l.holding.id() }

// Context returns a context of the one given to Lock that is also cancelled,
// with ErrReleased or a *LostError as cause, when the lease ends. Its Err is
// never nil after the trust window has closed, even if the process was paused
// meanwhile. A Lock under it knows what the caller holds already: see
// WithReentrancy and ErrDeadlock.
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		inner, cancel := context.WithCancelCause(l.parent)
		l.ctx, l.cancel = &leaseContext{Context: inner, lease: l}, cancel
		if l.ended != nil {
			cancel(l.ended)
		}
	}
	return l.ctx
}

// Done returns a channel that is closed when the lease ends.
func (l *Lease) Done() <-chan struct{} {
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
	if l.holding.open() {
		return nil
	}
	return l.state()
}

func (l *Lease) state() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// Deadline returns the end of the trust window as known now. A renewal moves it.
func (l *Lease) Deadline() time.Time { return l.holding.entry.Window.End() }

// Release gives the lease back. Its Context is cancelled first. Also with a ctx
// that has ended, Release reaches the store, in a second at most. Errors:
// ErrLost if the lease was lost before; ErrNotHeld (and ErrReleased) if it had
// been released; ErrUnavailable if the store did not confirm it: then the client
// goes on trying in the background, and the lease ends by its TTL at the latest.
func (l *Lease) Release(ctx context.Context) error {
	h := l.holding
	if err := l.Err(); err != nil {
		if errors.Is(err, ErrReleased) {
			return fmt.Errorf("holdfast: release %q: %w: %w", h.lk.name, ErrNotHeld, err)
		}
		return err
	}
	last, held := h.leave(l)
	if !held || !l.finish(ErrReleased) {
		return l.Release(ctx) // it ended this very moment
	}
	if !last {
		return nil
	}
	if !h.c.gate.join() {
		return fmt.Errorf("holdfast: release %q: %w", h.lk.name, ErrClosed)
	}
	defer h.c.gate.leave()
	since := h.since
	err := h.giveBack(ctx)
	for _, hook := range h.c.hooks.release {
		hook.Release(Release{Resource: h.lk.name, Token: l.token, Held: time.Since(since), Err: err})
	}
	return err
}

// finish ends the lease towards its holder. It returns false if it had ended.
func (l *Lease) finish(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return false
	}
	l.ended = why
	if l.cancel != nil {
		l.cancel(why)
	}
	if l.done != nil {
		close(l.done)
	}
	return true
}
