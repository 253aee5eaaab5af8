package peer

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	goredispool "github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/holdfast-go/holdfast/lab/subject"
)

// Redsync is go-redsync/redsync on three nodes, with an extension that may set a
// missing key again, as its option WithSetNXOnExtend has it. There are no points
// inside a foreign library.
func Redsync() subject.Subject {
	return subject.Subject{ID: "redsync", Title: "github.com/go-redsync/redsync/v4", Nodes: 3,
		Traits: subject.Traits{Windows: true, Renews: true},
		Open: func(s subject.Setup) (subject.Client, error) {
			pools := make([]redsyncredis.Pool, len(s.Nodes))
			for i, node := range s.Nodes {
				pools[i] = goredispool.NewPool(node)
			}
			return &redsyncClient{s, redsync.New(pools...)}, nil
		}}
}

type redsyncClient struct {
	subject.Setup
	rs *redsync.Redsync
}

func (c *redsyncClient) mutex(resource string) *redsync.Mutex {
	pause := c.Pause()
	// A caller that gives up by the number of tries would not wait at all.
	return c.rs.NewMutex(resource, redsync.WithExpiry(c.TTL), redsync.WithTries(1<<20), redsync.WithRetryDelay(pause),
		redsync.WithSetNXOnExtend())
}

// Acquire is LockContext.
func (c *redsyncClient) Acquire(ctx context.Context, resource string) (subject.Hold, error) {
	m := c.mutex(resource)
	if err := m.LockContext(ctx); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return redsyncHold{m}, nil
}

// Try is TryLockContext.
func (c *redsyncClient) Try(ctx context.Context, resource string) (subject.Hold, error) {
	m := c.mutex(resource)
	err := m.TryLockContext(ctx)
	if _, ok := errors.AsType[*redsync.ErrTaken](err); ok {
		return nil, errors.Join(subject.ErrBusy, err)
	}
	if err != nil {
		return nil, err
	}
	return redsyncHold{m}, nil
}

// Close has nothing to end.
func (c *redsyncClient) Close() error { return nil }

type redsyncHold struct{ m *redsync.Mutex }

func (h redsyncHold) Token() uint64         { return 0 }
func (h redsyncHold) Lost() <-chan struct{} { return nil }
func (h redsyncHold) Until() time.Time      { return h.m.Until() }

func (h redsyncHold) Within(ctx context.Context) context.Context { return ctx }

// Err reads Until, as its documentation advises.
func (h redsyncHold) Err() error {
	if time.Now().After(h.m.Until()) {
		return subject.ErrNotHeld
	}
	return nil
}

func (h redsyncHold) Renew(ctx context.Context) error {
	ok, err := h.m.ExtendContext(ctx)
	return redsyncAnswer(ok, err)
}

func (h redsyncHold) Release(ctx context.Context) error {
	ok, err := h.m.UnlockContext(ctx)
	return redsyncAnswer(ok, err)
}

func redsyncAnswer(ok bool, err error) error {
	switch taken := new(redsync.ErrTaken); {
	case ok:
		return nil
	case err == nil, errors.Is(err, redsync.ErrLockAlreadyExpired), errors.As(err, &taken):
		return errors.Join(subject.ErrNotHeld, err)
	}
	return err
}
