package etcd_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(openEngine)
	leaktest.Main(m, func() {
		if all, err := shared(); err == nil {
			all.Stop()
		}
	})
}

// openEngine is for the processes of storetest.
func openEngine(addr string) (engine.Engine, func(), error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		return nil, nil, err
	}
	return etcd.New(c), func() { _ = c.Close() }, nil
}

// shared is the etcd of the tests that break nothing.
var shared = sync.OnceValues(func() (etcdservers.Cluster, error) {
	return etcdservers.Launch(1, etcdservers.Config{})
})

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connect returns a client, with clientv3's default settings, which is closed at the end of the test.
func connect(t testing.TB, endpoints []string, change ...func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	conf := clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}
	for _, f := range change {
		f(&conf)
	}
	c, err := clientv3.New(conf)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// single returns a client of the shared etcd.
func single(t testing.TB) *clientv3.Client {
	t.Helper()
	all, err := shared()
	must(t, err)
	return connect(t, all.Addrs())
}

// newClient returns a Holdfast client of an etcd, which is closed at the end of the test.
func newClient(t testing.TB, c *clientv3.Client, opts ...etcd.Option) *holdfast.Client {
	t.Helper()
	client, err := holdfast.New(etcd.New(c, opts...), holdfast.WithPrefix(t.Name()))
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// within returns a ctx that ends when a test has taken too long.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func resource(t testing.TB) engine.Resource {
	return engine.Resource{Prefix: t.Name(), Name: "stock:42"}
}

// request is one for a mutex that waits.
func request(t testing.TB, id string, ttl time.Duration) engine.Request {
	return engine.Request{Resource: resource(t), ID: id, Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: ttl, Queue: true}
}

// hold acquires and must be granted.
func hold(t testing.TB, e engine.Engine, r engine.Request) engine.Held {
	t.Helper()
	a, err := e.Acquire(within(t, 20*time.Second), r)
	if err != nil || a.Status != engine.Granted {
		t.Fatalf("Acquire by %s: %+v, %v", r.ID, a, err)
	}
	return engine.Held{ID: r.ID, Token: a.Token}
}

// awaitGrant polls until the request is granted.
func awaitGrant(t testing.TB, e engine.Engine, r engine.Request) engine.Answer {
	t.Helper()
	ctx := within(t, 20*time.Second)
	for {
		a, err := e.Acquire(ctx, r)
		if err != nil {
			t.Fatalf("Acquire by %s: %v", r.ID, err)
		}
		if a.Status == engine.Granted {
			return a
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s is not granted", r.ID)
		}
	}
}

func renew(t testing.TB, e engine.Engine, h engine.Held, ttl time.Duration) error {
	return e.Renew(within(t, 10*time.Second), []engine.Renewal{{Resource: resource(t), Held: h, TTL: ttl}})[0]
}

func release(t testing.TB, e engine.Engine, h engine.Held) {
	t.Helper()
	must(t, e.Release(within(t, 20*time.Second), engine.Release{Resource: resource(t), Held: h}))
}

// wantError fails the test unless err is all of the targets and contains the text.
func wantError(t testing.TB, what string, err error, text string, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: got error %v, want one that is %v", what, err, target)
		}
	}
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got error %v, want one with %q", what, err, text)
	}
}
