package migrating

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/redis/rueidis/rueidislock"
)

// BeforeRueidislock is work under rueidislock, which renews and cancels ctx.
func BeforeRueidislock(ctx context.Context, locks rueidislock.Locker, work func(ctx context.Context) error) error {
	ctx, cancel, err := locks.WithContext(ctx, "stock:42")
	if err != nil {
		return err
	}
	defer cancel()
	return work(ctx)
}

// AfterRueidislock is the same under Holdfast.
func AfterRueidislock(ctx context.Context, client *holdfast.Client, work func(ctx context.Context) error) error {
	return client.Mutex("stock:42").Do(ctx, work)
}

// OldRueidislock is a lock of rueidislock for Both. It is for one use at a time.
type OldRueidislock struct {
	Rueidis rueidislock.Locker
	Name    string
	held    context.Context
	cancel  context.CancelFunc
}

// Lock implements OldLock.
func (o *OldRueidislock) Lock(ctx context.Context) (err error) {
	o.held, o.cancel, err = o.Rueidis.WithContext(ctx, o.Name)
	return err
}

// Extend implements OldLock: rueidislock extends by itself.
func (o *OldRueidislock) Extend(context.Context) error { return o.held.Err() }

// Unlock implements OldLock.
func (o *OldRueidislock) Unlock(context.Context) error {
	o.cancel()
	return nil
}
