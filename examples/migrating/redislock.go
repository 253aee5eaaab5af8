package migrating

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/holdfast-go/holdfast"
)

// BeforeRedislock is work under bsm/redislock, which does not renew.
func BeforeRedislock(ctx context.Context, locks *redislock.Client, work func(ctx context.Context) error) error {
	lock, err := locks.Obtain(ctx, "stock:42", 8*time.Second, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil // another holds the lock
	}
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))
	return work(ctx)
}

// AfterRedislock is the same under Holdfast.
func AfterRedislock(ctx context.Context, client *holdfast.Client, work func(ctx context.Context) error) error {
	lease, err := client.Mutex("stock:42", holdfast.WithTTL(8*time.Second)).TryLock(ctx)
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return nil // another holds the lock; *holdfast.HeldError describes it
	}
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}

// OldRedislock is a lock of bsm/redislock for Both. It is for one use at a time.
type OldRedislock struct {
	Client *redislock.Client
	Key    string
	TTL    time.Duration
	held   *redislock.Lock
}

// Lock implements OldLock. Obtain gives up after the TTL, so it is called again.
func (o *OldRedislock) Lock(ctx context.Context) (err error) {
	for {
		o.held, err = o.Client.Obtain(ctx, o.Key, o.TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)})
		gaveUp := errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded)
		if ctx.Err() != nil || !gaveUp {
			return err
		}
	}
}

// Extend implements OldLock.
func (o *OldRedislock) Extend(ctx context.Context) error { return o.held.Refresh(ctx, o.TTL, nil) }

// Unlock implements OldLock.
func (o *OldRedislock) Unlock(ctx context.Context) error { return o.held.Release(ctx) }
