package subject

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// polling is a client that waits by polling, like most old locks.
type polling struct {
	Setup
	try func(ctx context.Context, resource string) (*hold, error)
}

// Try tries once.
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

// Close does nothing.
func (c *polling) Close() error { return nil }

// node returns the first server, which is the only one of most locks.
func (s Setup) node() *redis.Client { return s.Nodes[0] }

// millis returns the TTL in milliseconds.
func (s Setup) millis() int64 { return s.TTL.Milliseconds() }

// hold is a Hold of a lock with few features.
type hold struct {
	token   uint64
	until   time.Time
	open    func() bool // reports whether until is in the future by the client's clock; nil: until is unknown
	thread  string      // identity that may re-enter; "": none
	extend  func(context.Context) error
	release func(context.Context) error
	over    atomic.Bool // set when the lock detects that it no longer holds
}

func (h *hold) Token() uint64         { return h.token }
func (h *hold) Until() time.Time      { return h.until }
func (h *hold) Lost() <-chan struct{} { return nil }

// Err is nil unless a call has detected the end of the hold, or the lock has a deadline
// that has passed.
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

// threadKey is the context key of the identity that re-enters.
type threadKey struct{}

// threadOf returns the identity in ctx, or "".
func threadOf(ctx context.Context) string {
	s, _ := ctx.Value(threadKey{}).(string)
	return s
}

// heldIf converts the reply of a compare-and-do script to an error.
func heldIf(n int64, err error) error {
	if err == nil && n == 0 {
		return ErrNotHeld
	}
	return err
}
