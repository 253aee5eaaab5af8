package subject

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
)

// Redislock is bsm/redislock. There are no points inside a foreign library.
func Redislock() Subject {
	return Subject{ID: "redislock", Title: "github.com/bsm/redislock", Nodes: 1, Traits: Traits{Renews: true},
		Open: func(s Setup) (Client, error) { return &redislockClient{s, redislock.New(s.node())}, nil }}
}

type redislockClient struct {
	Setup
	c *redislock.Client
}

// Acquire retries at an interval. The library bounds a wait without a deadline
// by the TTL, so that it is called again.
func (c *redislockClient) Acquire(ctx context.Context, resource string) (Hold, error) {
	pause := c.Retry
	if pause <= 0 {
		pause = defaultRetry
	}
	for {
		l, err := c.c.Obtain(ctx, resource, c.TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)})
		if err == nil {
			return redislockHold{c.Setup, l}, nil
		}
		if ctx.Err() != nil || !errors.Is(err, redislock.ErrNotObtained) {
			return nil, err
		}
	}
}

// Try asks once.
func (c *redislockClient) Try(ctx context.Context, resource string) (Hold, error) {
	l, err := c.c.Obtain(ctx, resource, c.TTL, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, errors.Join(ErrBusy, err)
	}
	if err != nil {
		return nil, err
	}
	return redislockHold{c.Setup, l}, nil
}

// Close has nothing to end.
func (c *redislockClient) Close() error { return nil }

type redislockHold struct {
	Setup
	l *redislock.Lock
}

func (h redislockHold) Token() uint64         { return 0 }
func (h redislockHold) Until() time.Time      { return time.Time{} }
func (h redislockHold) Lost() <-chan struct{} { return nil }
func (h redislockHold) Err() error            { return nil }

func (h redislockHold) Within(ctx context.Context) context.Context { return ctx }

func (h redislockHold) Renew(ctx context.Context) error {
	err := h.l.Refresh(ctx, h.TTL, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return errors.Join(ErrNotHeld, err)
	}
	return err
}

func (h redislockHold) Release(ctx context.Context) error {
	err := h.l.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return errors.Join(ErrNotHeld, err)
	}
	return err
}
