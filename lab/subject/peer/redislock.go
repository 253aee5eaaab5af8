package peer

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"github.com/holdfast-go/holdfast/lab/subject"
)

// Redislock is bsm/redislock. It has no points.
func Redislock() subject.Subject {
	return subject.Subject{ID: "redislock", Title: "github.com/bsm/redislock", Nodes: 1, Traits: subject.Traits{Renews: true},
		Open: func(s subject.Setup) (subject.Client, error) {
			return &redislockClient{s, redislock.New(s.Nodes[0])}, nil
		}}
}

type redislockClient struct {
	subject.Setup
	c *redislock.Client
}

// Acquire retries at an interval. The library bounds a wait without a deadline by the
// TTL, so it is called again.
func (c *redislockClient) Acquire(ctx context.Context, resource string) (subject.Hold, error) {
	pause := c.Pause()
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

// Try tries once.
func (c *redislockClient) Try(ctx context.Context, resource string) (subject.Hold, error) {
	l, err := c.c.Obtain(ctx, resource, c.TTL, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, errors.Join(subject.ErrBusy, err)
	}
	if err != nil {
		return nil, err
	}
	return redislockHold{c.Setup, l}, nil
}

// Close does nothing.
func (c *redislockClient) Close() error { return nil }

type redislockHold struct {
	subject.Setup
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
		return errors.Join(subject.ErrNotHeld, err)
	}
	return err
}

func (h redislockHold) Release(ctx context.Context) error {
	err := h.l.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return errors.Join(subject.ErrNotHeld, err)
	}
	return err
}
