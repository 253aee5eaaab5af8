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

	// The mutex is never held while anything else is called: contexts of nested
	// leases ask each other.
	mu    sync.Mutex
	ended error // nil while held; then ErrReleased or a *LostError
	ctx   *leaseContext
	done  chan struct{}
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
	if l.holding.open() {
		return nil
	}
	// Whoever closed the holding may not have come to this lease yet.
	return l.finish(l.holding.ending())
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
	last, held := false, false
	if l.Err() == nil {
		last, held = h.leave(l)
	}
	if !held {
		err := l.finish(h.ending())
		if errors.Is(err, ErrReleased) {
			return fmt.Errorf("holdfast: release %q: %w: %w", h.lk.name, ErrNotHeld, err)
		}
		return err
	}
	_ = l.finish(ErrReleased)
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

// finish ends the lease towards its holder and returns how it ended: by why, or
// as it had before.
func (l *Lease) finish(why error) error {
	l.mu.Lock()
	first := l.ended == nil
	if first {
		l.ended = why
	}
	why, ctx, done := l.ended, l.ctx, l.done
	l.mu.Unlock()
	if ctx != nil {
		ctx.cancel(why)
	}
	if first && done != nil {
		close(done)
	}
	return why
}
