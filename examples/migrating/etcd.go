package migrating

import (
	"context"

	"github.com/holdfast-go/holdfast"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// BeforeEtcd is work under concurrency.Mutex. The session is renewed in the background.
func BeforeEtcd(ctx context.Context, cli *clientv3.Client, work func(ctx context.Context) error) error {
	session, err := concurrency.NewSession(cli, concurrency.WithTTL(15))
	if err != nil {
		return err
	}
	defer session.Close()
	mutex := concurrency.NewMutex(session, "/stock/42")
	if err := mutex.Lock(ctx); err != nil {
		return err
	}
	defer mutex.Unlock(context.WithoutCancel(ctx))
	ctx, lost := context.WithCancel(ctx)
	defer lost()
	go func() {
		select {
		case <-session.Done():
			lost()
		case <-ctx.Done():
		}
	}()
	return work(ctx)
}

// AfterEtcd is work that stood under concurrency.Mutex: ctx ends when the lease is lost.
func AfterEtcd(ctx context.Context, client *holdfast.Client, work func(ctx context.Context) error) error {
	return client.Mutex("stock:42").Do(ctx, work)
}

// BeforeEtcdElection is work of one term that concurrency.Election gives.
func BeforeEtcdElection(ctx context.Context, session *concurrency.Session, work func(ctx context.Context) error) error {
	election := concurrency.NewElection(session, "/dispatcher")
	if err := election.Campaign(ctx, "10.0.0.7:8080"); err != nil {
		return err
	}
	defer election.Resign(context.WithoutCancel(ctx))
	return work(ctx)
}

// AfterEtcdElection is work of a leader that concurrency.Election chose.
func AfterEtcdElection(ctx context.Context, client *holdfast.Client, work func(ctx context.Context) error) error {
	return client.Election("dispatcher").Lead(ctx, "10.0.0.7:8080", work)
}
