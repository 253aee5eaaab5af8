package faulttest

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// ground is a store whose master can die and be replaced by a replica.
type ground interface {
	connect() redis.UniversalClient
	replicas() int                        // of each master
	master(name string) *redistest.Server // that has a resource
	promote(master *redistest.Server)     // a replica takes the place of a dead master, at once
	rejoin(dead *redistest.Server)        // it comes back as a replica; then all replicas have all data
	servers() []*redistest.Server         // that together have all data
}

// grounds are the kinds of store, by name.
func grounds() map[string]func(*testing.T) ground {
	return map[string]func(*testing.T) ground{
		"replicas": func(t *testing.T) ground { return newReplicatedGround(t) },
		"sentinel": func(t *testing.T) ground { return &sentinelGround{redistest.StartSentinel(t)} },
		"cluster":  func(t *testing.T) ground { return &clusterGround{redistest.StartCluster(t)} },
	}
}

// onGrounds runs a test on each kind of store. When it ends no key may be without
// TTL, and no goroutine left.
func onGrounds(t *testing.T, test func(w *world, g ground)) {
	for name, start := range grounds() {
		t.Run(name, func(t *testing.T) {
			goleak.VerifyNone(t, dialling())
			t.Cleanup(func() { goleak.VerifyNone(t, dialling()) })
			g := start(t)
			t.Cleanup(func() {
				for _, s := range g.servers() {
					if !t.Failed() && s.PID() != 0 {
						s.RequireTTLs(t)
					}
				}
			})
			test(&world{t: t}, g)
		})
	}
}

// neighbour returns another resource on the same master.
func neighbour(g ground, name string) string {
	for i := 0; ; i++ {
		if other := fmt.Sprint("neighbour:", i); g.master(other) == g.master(name) {
			return other
		}
	}
}

// clientOn returns a client on a ground, closed with the test.
func clientOn(t *testing.T, g ground, opts ...goredis.Option) *holdfast.Client {
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

// replicatedGround is a master with one replica and nobody who watches them;
// clients know the present master, as by a name service.
type replicatedGround struct {
	group   *redistest.Replicated
	present atomic.Pointer[redistest.Server]
}

func newReplicatedGround(t *testing.T) *replicatedGround {
	g := &replicatedGround{group: redistest.StartReplicated(t, 1)}
	g.present.Store(g.group.Master())
	return g
}

func (g *replicatedGround) connect() redis.UniversalClient {
	return redis.NewClient(&redis.Options{Addr: "master", Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, g.present.Load().Addr())
	}})
}

func (g *replicatedGround) replicas() int                   { return 1 }
func (g *replicatedGround) master(string) *redistest.Server { return g.group.Master() }
func (g *replicatedGround) promote(*redistest.Server)       { g.present.Store(g.group.Promote()) }
func (g *replicatedGround) rejoin(dead *redistest.Server)   { g.group.Rejoin(dead) }
func (g *replicatedGround) servers() []*redistest.Server {
	return append(g.group.Replicas(), g.group.Master())
}

// sentinelGround is a master with two replicas under three Sentinels, who are told
// to fail over.
type sentinelGround struct{ group *redistest.Sentinel }

func (g *sentinelGround) connect() redis.UniversalClient {
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.SentinelName, SentinelAddrs: g.group.Addrs()})
}

func (g *sentinelGround) replicas() int                   { return 2 }
func (g *sentinelGround) master(string) *redistest.Server { return g.group.Master() }
func (g *sentinelGround) promote(*redistest.Server)       { g.group.FailOver() }
func (g *sentinelGround) rejoin(dead *redistest.Server) {
	g.group.Rejoin(dead)
	g.group.AwaitWatched()
}
func (g *sentinelGround) servers() []*redistest.Server {
	return append(g.group.Replicas(), g.group.Master())
}

// clusterGround is three masters with a replica each.
type clusterGround struct{ cluster *redistest.Cluster }

func (g *clusterGround) connect() redis.UniversalClient {
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: g.cluster.Addrs()})
}

func (g *clusterGround) replicas() int                        { return 1 }
func (g *clusterGround) master(name string) *redistest.Server { return g.cluster.MasterOf(tag(name)) }
func (g *clusterGround) promote(master *redistest.Server)     { g.cluster.Promote(master) }
func (g *clusterGround) rejoin(dead *redistest.Server)        { g.cluster.Rejoin(dead) }
func (g *clusterGround) servers() []*redistest.Server         { return g.cluster.Masters() }
