package faulttest

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// failoverStore is a store whose master can die and be replaced by a replica.
type failoverStore interface {
	connect() redis.UniversalClient
	replicas() int                        // of each master
	master(name string) *redistest.Server // that has a resource
	promote(master *redistest.Server)     // a replica takes the place of a dead master, at once
	rejoin(dead *redistest.Server)        // it comes back as a replica; then all replicas have all data
	servers() []*redistest.Server         // that together have all data
}

// failoverStores are the kinds of store, by name.
func failoverStores() map[string]func(*testing.T) failoverStore {
	return map[string]func(*testing.T) failoverStore{
		"replicas": func(t *testing.T) failoverStore { return newReplicatedStore(t) },
		"sentinel": func(t *testing.T) failoverStore { return &sentinelStore{redistest.StartSentinel(t)} },
		"cluster":  func(t *testing.T) failoverStore { return &clusterStore{redistest.StartCluster(t)} },
	}
}

// onFailoverStores runs a test on each kind of store. When it ends no key may be without
// TTL, and no goroutine left.
func onFailoverStores(t *testing.T, test func(w *fixture, g failoverStore)) {
	for name, start := range failoverStores() {
		t.Run(name, func(t *testing.T) {
			leaktest.Check(t, dialling())
			t.Cleanup(func() { leaktest.Check(t, dialling()) })
			g := start(t)
			t.Cleanup(func() {
				for _, s := range g.servers() {
					if !t.Failed() && s.PID() != 0 {
						s.RequireTTLs(t)
					}
				}
			})
			test(newBareFixture(t), g)
		})
	}
}

// nameOnSameMaster returns another resource on the same master.
func nameOnSameMaster(g failoverStore, name string) string {
	for i := 0; ; i++ {
		if other := fmt.Sprint("other:", i); g.master(other) == g.master(name) {
			return other
		}
	}
}

// clientOn returns a client of a store, closed with the test.
func clientOn(t *testing.T, g failoverStore, opts ...goredis.Option) *holdfast.Client {
	t.Helper()
	rdb := g.connect()
	c, err := holdfast.New(goredis.New(rdb, opts...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close() // what is left is the test's to find
		_ = rdb.Close()
	})
	return c
}

// replicatedStore is a master with one replica without Sentinels;
// clients know the present master, as by a name service.
type replicatedStore struct {
	group   *redistest.Replicated
	present atomic.Pointer[redistest.Server]
}

func newReplicatedStore(t *testing.T) *replicatedStore {
	g := &replicatedStore{group: redistest.StartReplicated(t, 1)}
	g.present.Store(g.group.Master())
	return g
}

func (g *replicatedStore) connect() redis.UniversalClient {
	return redis.NewClient(&redis.Options{Addr: "master", Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, g.present.Load().Addr())
	}})
}

func (g *replicatedStore) replicas() int                   { return 1 }
func (g *replicatedStore) master(string) *redistest.Server { return g.group.Master() }
func (g *replicatedStore) promote(*redistest.Server)       { g.present.Store(g.group.Promote()) }
func (g *replicatedStore) rejoin(dead *redistest.Server)   { g.group.Rejoin(dead) }
func (g *replicatedStore) servers() []*redistest.Server {
	return append(g.group.Replicas(), g.group.Master())
}

// sentinelStore is a master with two replicas under three Sentinels, which are made to
// fail over.
type sentinelStore struct{ group *redistest.Sentinel }

func (g *sentinelStore) connect() redis.UniversalClient {
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.SentinelName, SentinelAddrs: g.group.Addrs()})
}

func (g *sentinelStore) replicas() int                   { return 2 }
func (g *sentinelStore) master(string) *redistest.Server { return g.group.Master() }
func (g *sentinelStore) promote(*redistest.Server)       { g.group.FailOver() }
func (g *sentinelStore) rejoin(dead *redistest.Server) {
	g.group.Rejoin(dead)
	g.group.AwaitWatched()
}
func (g *sentinelStore) servers() []*redistest.Server {
	return append(g.group.Replicas(), g.group.Master())
}

// clusterStore is three masters with a replica each.
type clusterStore struct{ cluster *redistest.Cluster }

func (g *clusterStore) connect() redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: g.cluster.Addrs()})
}

func (g *clusterStore) replicas() int                        { return 1 }
func (g *clusterStore) master(name string) *redistest.Server { return g.cluster.MasterOf(tag(name)) }
func (g *clusterStore) promote(master *redistest.Server)     { g.cluster.Promote(master) }
func (g *clusterStore) rejoin(dead *redistest.Server)        { g.cluster.Rejoin(dead) }
func (g *clusterStore) servers() []*redistest.Server         { return g.cluster.Masters() }
