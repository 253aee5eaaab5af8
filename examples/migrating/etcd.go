package migrating

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// AfterEtcd is work that stood under concurrency.Mutex: ctx ends when the lease is lost.
func AfterEtcd(ctx context.Context, client *holdfast.Client, work func(ctx context.Context) error) error {
	return client.Mutex("stock:42").Do(ctx, work)
}

// AfterEtcdElection is work of a leader that concurrency.Election chose.
func AfterEtcdElection(ctx context.Context, client *holdfast.Client, work func(ctx context.Context) error) error {
	return client.Election("dispatcher").Lead(ctx, "10.0.0.7:8080", work)
}
