package migrating

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/holdfast-go/holdfast"
)

// BeforeRedsync is work under redsync, which does not renew.
func BeforeRedsync(ctx context.Context, rs *redsync.Redsync, work func(ctx context.Context) error) error {
	mutex := rs.NewMutex("stock:42", redsync.WithExpiry(8*time.Second), redsync.WithTries(100))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(context.WithoutCancel(ctx))
	return work(ctx)
}

// AfterRedsync is the same under Holdfast. work may take longer than the TTL.
func AfterRedsync(ctx context.Context, client *holdfast.Client, work func(ctx context.Context) error) error {
	mutex := client.Mutex("stock:42", holdfast.WithTTL(8*time.Second))
	lease, err := mutex.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(lease.Context())
}

// OldRedsync is a mutex of redsync for Both. Give it as many tries as the wait may need.
type OldRedsync struct{ Mutex *redsync.Mutex }

// Lock implements OldLock.
func (o OldRedsync) Lock(ctx context.Context) error { return o.Mutex.LockContext(ctx) }

// Extend implements OldLock.
func (o OldRedsync) Extend(ctx context.Context) error {
	ok, err := o.Mutex.ExtendContext(ctx)
	if err == nil && !ok {
		err = errors.New("not extended")
	}
	return err
}

// Unlock implements OldLock.
func (o OldRedsync) Unlock(ctx context.Context) error {
	_, err := o.Mutex.UnlockContext(ctx)
	return err
}
