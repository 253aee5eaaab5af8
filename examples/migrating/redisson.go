package migrating

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
)

// AfterRedisson is the work of a Java service under RLock.lock(), as a Go service does it.
func AfterRedisson(ctx context.Context, client *holdfast.Client, work func(ctx context.Context) error) error {
	return client.Mutex("stock:42", holdfast.WithTTL(30*time.Second), holdfast.WithReentrancy()).Do(ctx, work)
}
