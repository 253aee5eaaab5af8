package subject

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// polling is a client that waits by trying again and again, as most old locks
// do.
type polling struct {
	Setup
	try func(ctx context.Context, resource string) (*hold, error)
}

// Try asks once.
func (c *polling) Try(ctx context.Context, resource string) (Hold, error) {
	h, err := c.try(ctx, resource)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Acquire tries until it holds.
func (c *polling) Acquire(ctx context.Context, resource string) (Hold, error) {
	return poll(ctx, c.Setup, func(ctx context.Context) (Hold, error) { return c.Try(ctx, resource) })
}

// Close has nothing to end.
func (c *polling) Close() error { return nil }

// node is the first server, which is the only one of most locks.
func (s Setup) node() *redis.Client { return s.Nodes[0] }

// millis is the TTL as Redis takes it.
func (s Setup) millis() int64 { return s.TTL.Milliseconds() }

// hold is a Hold of a lock that says little.
type hold struct {
	token   uint64
	until   time.Time
	open    func() bool // whether until is not over by the client's clock; nil: until is not known
	thread  string      // who may re-enter; "": nobody
	extend  func(context.Context) error
	release func(context.Context) error
	over    atomic.Bool // the lock knows that it does not hold any more
}

func (h *hold) Token() uint64         { return h.token }
func (h *hold) Until() time.Time      { return h.until }
func (h *hold) Lost() <-chan struct{} { return nil }

// Err is nil for ever unless the lock learnt better by a call, or said itself
// until when it holds.
func (h *hold) Err() error {
	if h.over.Load() || h.open != nil && !h.open() {
		return ErrNotHeld
	}
	return nil
}

func (h *hold) Within(ctx context.Context) context.Context {
	if h.thread == "" {
		return ctx
	}
	return context.WithValue(ctx, threadKey{}, h.thread)
}

func (h *hold) Renew(ctx context.Context) error {
	if h.extend == nil {
		return ErrNoRenewal
	}
	return h.note(h.extend(ctx))
}

func (h *hold) Release(ctx context.Context) error {
	err := h.note(h.release(ctx))
	if err == nil {
		h.over.Store(true)
	}
	return err
}

func (h *hold) note(err error) error {
	if errors.Is(err, ErrNotHeld) {
		h.over.Store(true)
	}
	return err
}

// threadKey carries the identity that re-enters.
type threadKey struct{}

// threadOf is the identity under ctx, or "".
func threadOf(ctx context.Context) string {
	s, _ := ctx.Value(threadKey{}).(string)
	return s
}

// heldIf turns the answer of a compare-and-do script into an error.
func heldIf(n int64, err error) error {
	if err == nil && n == 0 {
		return ErrNotHeld
	}
	return err
}
