package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestConformanceOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client()
	enginetest.Run(t, func(testing.TB) engine.Engine { return open(t, rdb) })
	for _, s := range cluster.Masters() {
		s.RequireTTLs(t)
	}
}

// tag is what a cluster hashes of a resource's keys.
func tag(name string) string {
	return "{" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(name) + "}"
}

// spread names one resource on each master of a cluster.
func spread(c *redistest.Cluster, base string) map[*redistest.Server]string {
	names := map[*redistest.Server]string{}
	for i := 0; len(names) < 3; i++ {
		name := fmt.Sprint(base, i)
		names[c.MasterOf(tag(name))] = name
	}
	return names
}

// elsewhere returns a master that does not have a resource.
func elsewhere(c *redistest.Cluster, name string) *redistest.Server {
	masters := c.Masters()
	if masters[0] == c.MasterOf(tag(name)) {
		return masters[1]
	}
	return masters[0]
}

// handOff passes a resource from c1 to c2, which listens, and waits for the
// wake-up.
func handOff(t *testing.T, e engine.Engine, name string, wakes <-chan engine.Wakeup, try int) {
	t.Helper()
	r := request(fmt.Sprint("c1.a", try))
	r.Resource = named(name)
	a := hold(t, e, r)
	r.ID = fmt.Sprint("c2.b", try)
	wait(t, e, r)
	release(t, e, r.Resource, a)
	for {
		if w := next(t, wakes, engine.WakeGrant); w.ID == r.ID {
			release(t, e, r.Resource, engine.Held{ID: r.ID, Token: w.Token})
			return
		}
	}
}

// sharded lists the channels of shards that a server has listeners of.
func sharded(t *testing.T, s *redistest.Server) []string {
	t.Helper()
	names, err := s.Client().PubSubShardChannels(t.Context(), "*").Result()
	must(t, err)
	return names
}

// listened reports whether a client listens to the shard of a master, if it has such
// channels, as since Redis 7.
func listened(t *testing.T, s *redistest.Server) bool {
	return !s.Since(7, 0) || len(sharded(t, s)) == 1
}

// until waits for a condition by looking again and again.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}

// A client listens to each shard on which it waits, over one connection each;
// and again where a slot has gone.
func TestWakeupsOfShards(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	masters := cluster.Masters()
	e := open(t, cluster.Client())
	wakes := listen(t, e, "c2")
	names := spread(cluster, "stock:")
	for s, name := range names {
		handOff(t, e, name, wakes, 0)
		until(t, "the shard is listened to", func() bool { return listened(t, s) })
		handOff(t, e, name, wakes, 1)
	}
	shards := masters[0].Since(7, 0) // else the messages go to all nodes, and a client listens to two
	for i, from := range masters {
		to := masters[(i+1)%len(masters)]
		m := cluster.Migrate(tag(names[from]), to)
		handOff(t, e, "other"+names[from], wakes, i)
		m.Finish()
		if shards {
			next(t, wakes, engine.Resync)
			until(t, "the channel has followed the slot", func() bool {
				return slices.Contains(sharded(t, to), "p:"+tag(names[from])+":wake:c2")
			})
		}
		handOff(t, e, names[from], wakes, 2)
	}
	for i := range 3 { // the connections break, one after the other
		s := cluster.Masters()[i]
		must(t, s.Client().Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		if shards || i == 2 {
			next(t, wakes, engine.Resync)
		}
	}
	for _, name := range names {
		handOff(t, e, name, wakes, 3)
	}
}

// A client listens to two masters from the start, so that one that hangs delays no wake-up.
func TestListensToTwoMasters(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	e := open(t, cluster.Client())
	for i := range 100 { // by chance one in 27 would find one master only
		client := fmt.Sprint("c", i)
		listen(t, e, client)
		until(t, "two masters are listened to", func() bool { return listeners(t, cluster, client) == 2 })
	}
}

// listeners counts the masters that a client listens to.
func listeners(t *testing.T, cluster *redistest.Cluster, client string) int64 {
	t.Helper()
	var all int64
	for _, s := range cluster.Masters() {
		n, err := s.Client().PubSubNumSub(t.Context(), "p:wake:"+client).Result()
		must(t, err)
		for _, n := range n {
			all += n
		}
	}
	return all
}

// Without the right to listen to a shard, or to publish to one, the messages go to all nodes.
func TestWakeupsWithoutShards(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rights := []string{"-ssubscribe", "-spublish"}
	if !cluster.Masters()[0].Since(7, 0) {
		rights = []string{"+@all"} // there are no shards
	}
	for _, denied := range rights {
		for _, s := range cluster.Nodes() {
			must(t, s.Client().Do(t.Context(), "acl", "setuser", "app", "reset", "on", ">secret", "~*", "&*", "+@all", denied).Err())
		}
		rdb := cluster.Client(func(o *redis.ClusterOptions) { o.Username, o.Password = "app", "secret" })
		e := open(t, rdb)
		wakes := listen(t, e, "c2")
		for i, name := range []string{"a" + denied, "b" + denied, "c" + denied, "a" + denied} {
			handOff(t, e, name, wakes, i)
		}
	}
}

// A master that hangs costs the leases on the others nothing, nor the wake-ups.
func TestHungMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	e := open(t, cluster.Client())
	wakes := listen(t, e, "c2")
	until(t, "two masters are listened to", func() bool { return listeners(t, cluster, "c2") == 2 })
	names, others := spread(cluster, "stock:"), spread(cluster, "other:")
	var all []engine.Renewal
	var servers []*redistest.Server
	for s, name := range names {
		r := request("c1.a")
		r.Resource, r.Client = named(name), &engine.Client{ID: "c1"}
		all = append(all, engine.Renewal{Resource: r.Resource, Held: hold(t, e, r), TTL: r.TTL})
		servers = append(servers, s)
	}
	for i, err := range e.Renew(t.Context(), all) {
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	for i, hung := range servers {
		hung.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		errs := e.Renew(ctx, all)
		cancel()
		for j, err := range errs {
			if (j == i) != (err != nil) {
				t.Errorf("%d hangs: the renewal on %d gave %v", i, j, err)
			}
		}
		for j := range servers {
			if j != i {
				handOff(t, e, others[servers[j]], wakes, i)
			}
		}
		hung.Resume()
		until(t, "it answers again", func() bool { return renew(e, t.Context(), all[i].Resource, all[i].Held) == nil })
	}
}

// While a slot is on its way, calls about resources of which both keys are in one
// place are answered; others pass, and are answered afterwards as if nothing had
// happened.
func TestCallsWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	e := open(t, cluster.Client())
	a := hold(t, e, request("c1.a"))
	m := cluster.Migrate(tag("stock:42"), elsewhere(cluster, "stock:42"))
	passing := func(when string) {
		t.Helper()
		for what, err := range calls(t.Context(), e, request("c1.b")) {
			wantError(t, when+": "+what, err, engine.ErrUnavailable)
		}
	}
	passing("before its one key has moved")
	m.Move(1)
	passing("after it has")
	m.Finish()
	must(t, renew(e, t.Context(), named("stock:42"), a))

	b := request("c2.b")
	wait(t, e, b) // from now on there are two keys
	m = cluster.Migrate(tag("stock:42"), elsewhere(cluster, "stock:42"))
	must(t, renew(e, t.Context(), named("stock:42"), a))
	m.Move(1)
	passing("between two places")
	m.Move(1)
	must(t, renew(e, t.Context(), named("stock:42"), a))
	release(t, e, named("stock:42"), a)
	m.Finish() // the line is empty, and so there is one key again
	held := hold(t, e, b)
	must(t, renew(e, t.Context(), named("stock:42"), held))
	if held.Token <= a.Token {
		t.Errorf("token %d after %d", held.Token, a.Token)
	}
	release(t, e, named("stock:42"), held)
}

// A cluster that lost a master says CLUSTERDOWN, which passes; with the replica
// in its place it goes on, with the lease and without a word from anybody.
func TestMasterDies(t *testing.T) {
	t.Parallel()
	stalls := redistest.WatchStalls(t)
	cluster := redistest.StartCluster(t, redistest.WithArgs("--cluster-node-timeout", "1000", "--cluster-replica-no-failover", "yes"))
	e := open(t, cluster.Client())
	wakes := listen(t, e, "c2")
	held := hold(t, e, request("c1.a"))
	dead := cluster.MasterOf(tag("stock:42"))
	if n := dead.Client().Wait(t.Context(), 1, 5*time.Second).Val(); n != 1 {
		t.Fatalf("%d replicas have it", n)
	}
	dead.Kill()
	other := named("other")
	for i := 0; cluster.MasterOf(tag(other.Name)) == dead; i++ {
		other.Name = fmt.Sprint("other", i)
	}
	until(t, "the cluster is down", func() bool {
		_, err := e.Snapshot(t.Context(), other)
		return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN") && errors.Is(err, engine.ErrUnavailable)
	})
	wantError(t, "Renew", renew(e, t.Context(), named("stock:42"), held), engine.ErrUnavailable)
	cluster.FailOver(dead)
	start := time.Now()
	until(t, "the lease is renewed", func() bool { return renew(e, t.Context(), named("stock:42"), held) == nil })
	stalls.Within(t, start, 2*time.Second, "finding the new master")
	until(t, "it is given back", func() bool {
		return e.Release(t.Context(), engine.Release{Resource: named("stock:42"), Held: held}) == nil
	})
	handOff(t, e, "stock:42", wakes, 1)
}

// Close of a stream from a cluster returns at once, whatever hangs.
func TestCloseOfAStreamFromACluster(t *testing.T) {
	t.Parallel()
	stalls := redistest.WatchStalls(t)
	cluster := redistest.StartCluster(t)
	e := open(t, cluster.Client())
	names := spread(cluster, "stock:")
	for _, trouble := range []func(*redistest.Server){(*redistest.Server).Pause, (*redistest.Server).Kill} {
		var closed sync.Mutex
		ended := false
		l, err := e.Listen(t.Context(), prefix, "c2", func(engine.Wakeup) {
			closed.Lock()
			defer closed.Unlock()
			if ended {
				t.Error("delivered after Close")
			}
		})
		must(t, err)
		for s, name := range names {
			r := request("c1.a")
			r.Resource = named(name)
			a := hold(t, e, r)
			r.ID = "c2.b"
			wait(t, e, r)
			release(t, e, r.Resource, a)
			must(t, e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID}}))
			until(t, "the shard is listened to", func() bool { return listened(t, s) })
		}
		for _, s := range cluster.Masters() {
			trouble(s)
		}
		start := time.Now()
		must(t, l.Close())
		must(t, l.Close()) // twice is fine
		stalls.Within(t, start, time.Second, "Close")
		closed.Lock()
		ended = true
		closed.Unlock()
		for s := range names {
			if s.PID() != 0 {
				s.Resume()
			}
		}
	}
}

// A master of a cluster that is cut off from most of the others refuses renewals by
// itself, so nobody goes on with a lease there while the others pass it on.
func TestMasterOfAMinorityRefuses(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithArgs("--cluster-node-timeout", "1000"))
	e := open(t, cluster.Client())
	held := hold(t, e, request("c1.a"))
	must(t, renew(e, t.Context(), named("stock:42"), held))
	own := cluster.MasterOf(tag("stock:42"))
	for _, s := range cluster.Nodes() {
		if s != own {
			s.Pause()
			defer s.Resume()
		}
	}
	until(t, "it refuses", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := renew(e, ctx, named("stock:42"), held)
		return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN") && errors.Is(err, engine.ErrUnavailable)
	})
}
