package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestConformanceWithReplicas(t *testing.T) {
	t.Parallel()
	t.Run("one master", func(t *testing.T) {
		group := redistest.StartReplicated(t, 2)
		rdb := group.Master().Client()
		enginetest.Run(t, func(testing.TB) engine.Engine { return open(t, rdb, goredis.WithReplicas(2, time.Second)) })
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t, redistest.WithAppendOnly(), redistest.WithArgs("--appendfsync", "always"))
		rdb := cluster.Client()
		enginetest.Run(t, func(testing.TB) engine.Engine {
			return open(t, rdb, goredis.WithReplicas(1, time.Second), goredis.WithFsync())
		})
	})
}

// wantShort fails the test unless err says how many replicas have it.
func wantShort(t *testing.T, what string, err error, have, want int) {
	t.Helper()
	if short, ok := errors.AsType[*goredis.ReplicasError](err); !ok || short.Have != have || short.Want != want || !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("%s: got error %v, want %d of %d replicas", what, err, have, want)
	}
}

// What too few replicas have is not answered as granted, renewed or marked; what
// is not about holding works without them.
func TestTooFewReplicas(t *testing.T) {
	group := redistest.StartReplicated(t, 2)
	e := open(t, group.Master().Client(), goredis.WithReplicas(2, 100*time.Millisecond))
	held := hold(t, e, request("c1.a"))
	must(t, renew(e, t.Context(), named("stock:42"), held))
	group.Replicas()[0].Pause()
	wantShort(t, "Renew", renew(e, t.Context(), named("stock:42"), held), 1, 2)
	other := request("c1.b")
	other.Resource.Name = "other"
	_, err := e.Acquire(t.Context(), other)
	wantShort(t, "Acquire", err, 1, 2)
	wait(t, e, request("c2.c"))
	wantShort(t, "Release with a mark", e.Release(t.Context(), engine.Release{
		Resource: named("stock:42"), Held: held, Mark: time.Minute}), 1, 2)
	must(t, e.Release(t.Context(), engine.Release{Resource: other.Resource, Held: engine.Held{ID: other.ID}, Withdraw: true}))
	_, err = e.Snapshot(t.Context(), other.Resource)
	must(t, err)

	group.Master().HoldBackReplicas()
	_, err = e.Acquire(t.Context(), request("c3.d"))
	if err != nil { // it is marked
		t.Errorf("Acquire of what is marked: %v", err)
	}
	other.ID = "c3.e"
	_, err = e.Acquire(t.Context(), other)
	wantShort(t, "Acquire", err, 0, 2)
	group.Master().ReleaseReplicas()
	group.Replicas()[0].Resume()
	until(t, "the same request is granted when they are back", func() bool {
		a, err := e.Acquire(t.Context(), other)
		return err == nil && a.Status == engine.Granted
	})
}

// A pushed grant says nothing about replicas: its receiver has to poll.
func TestPushedGrantsAreConfirmed(t *testing.T) {
	group := redistest.StartReplicated(t, 1)
	e := open(t, group.Master().Client(), goredis.WithReplicas(1, time.Second))
	wakes := listen(t, e, "c2")
	a := hold(t, e, request("c1.a"))
	wait(t, e, request("c2.b"))
	release(t, e, named("stock:42"), a)
	if w := next(t, wakes, engine.WakeGrant); w.TTL != 0 || w.ID != "c2.b" {
		t.Errorf("got %+v, want a TTL of 0", w)
	}
	hold(t, e, request("c2.b"))
}

// Scripts that a server has forgotten, a full memory, and a slot that is on its
// way: with replicas they are ridden out as without.
func TestReplicatedCallsAreRetried(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client()
	e := open(t, rdb, goredis.WithReplicas(1, time.Second))
	var all []engine.Renewal
	for i := range 10 {
		r := request("c1.a")
		r.Resource.Name = fmt.Sprint("stock:", i)
		all = append(all, engine.Renewal{Resource: r.Resource, Held: hold(t, e, r), TTL: r.TTL})
	}
	renewAll := func(what string) {
		t.Helper()
		for i, err := range e.Renew(t.Context(), all) {
			if err != nil {
				t.Errorf("%s: %d: %v", what, i, err)
			}
		}
	}
	renewAll("at rest")
	for _, s := range cluster.Masters() {
		must(t, s.Client().ScriptFlush(t.Context()).Err())
	}
	renewAll("after SCRIPT FLUSH")
	for _, s := range cluster.Masters() {
		must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	}
	renewAll("without memory")
	for _, s := range cluster.Masters() {
		must(t, s.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	}
	both := request("c2.b") // with a waiter, a resource has both its keys
	both.Resource.Name = "stock:0"
	wait(t, e, both)
	m := cluster.Migrate(tag("stock:0"), elsewhere(cluster, "stock:0"))
	renewAll("before the keys of a slot have moved")
	m.Move(100)
	renewAll("after they have, and the slot has not")
	m.Finish()
	renewAll("after the slot has")
	release(t, e, both.Resource, all[0].Held)
}

// Options that cannot work are said at the first call.
// A master that has lost its scripts, or has no memory left, gets the calls of a pipeline again together: each time may have
// to wait for a replica that is away.
func TestReplicatedCallsAreRetriedTogether(t *testing.T) {
	t.Parallel()
	admin := redistest.StartReplicated(t, 1).Master().Client()
	e := open(t, admin, goredis.WithReplicas(1, time.Second))
	waits := func() (n int) {
		_, err := fmt.Sscanf(admin.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_wait"], "calls=%d", &n)
		must(t, err)
		return n
	}
	for _, memory := range []string{"0", "1"} {
		var took []int
		for _, n := range []int{4, 32} {
			must(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
			var all []engine.Renewal
			for i := range n {
				r := requestOf(fmt.Sprint("order:", memory, n, ":", i), "c1.a")
				all = append(all, engine.Renewal{Resource: r.Resource, Held: hold(t, e, r), TTL: r.TTL})
			}
			must(t, admin.ScriptFlush(t.Context()).Err())
			must(t, admin.ConfigSet(t.Context(), "maxmemory", memory).Err())
			before := waits()
			for i, err := range e.Renew(t.Context(), all) {
				if err != nil {
					t.Errorf("maxmemory %s: renewal %d of %d: %v", memory, i, n, err)
				}
			}
			took = append(took, waits()-before)
		}
		if t.Logf("maxmemory %s: %v", memory, took); took[0] != took[1] {
			t.Errorf("maxmemory %s: 4 calls took %d times WAIT, and 32 calls %d", memory, took[0], took[1])
		}
	}
}

func TestOptionsOfReplicas(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ReadTimeout: 500 * time.Millisecond})
	defer rdb.Close()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	for what, e := range map[string]*goredis.Engine{
		"none":                  goredis.New(rdb, goredis.WithReplicas(-1, time.Second)),
		"no time":               goredis.New(rdb, goredis.WithReplicas(1, 0)),
		"too long":              goredis.New(rdb, goredis.WithReplicas(1, time.Minute)),
		"read timeout":          goredis.New(rdb, goredis.WithReplicas(1, 500*time.Millisecond)),
		"fsync without":         goredis.New(rdb, goredis.WithFsync()),
		"a client of many":      goredis.New(ring, goredis.WithReplicas(1, time.Millisecond)),
		"a retention too short": goredis.New(rdb, goredis.WithRetention(time.Second)),
	} {
		_, err := e.Acquire(context.Background(), request("c1.a"))
		wantError(t, what, err, engine.ErrDenied)
	}
}

// On disk is what WAITAOF says, where the server knows it, as Redis does from 7.2
// on: a replica without an append-only file has nothing there. Elsewhere a
// replica counts as without the option.
func TestFsync(t *testing.T) {
	group := redistest.StartReplicated(t, 1)
	e := open(t, group.Master().Client(), goredis.WithReplicas(1, 500*time.Millisecond), goredis.WithFsync())
	r := request("c1.a")
	command := "wait"
	if group.Master().Since(7, 2) {
		command = "waitaof"
		_, err := e.Acquire(t.Context(), r)
		wantShort(t, "Acquire", err, 0, 1)
		wantShort(t, "Renew", renew(e, t.Context(), r.Resource, engine.Held{ID: r.ID}), 0, 1)
		replica := group.Replicas()[0].Client()
		must(t, replica.ConfigSet(t.Context(), "appendfsync", "always").Err())
		must(t, replica.ConfigSet(t.Context(), "appendonly", "yes").Err())
		until(t, "the replica has it on disk", func() bool {
			a, err := e.Acquire(t.Context(), r)
			return err == nil && a.Status == engine.Granted
		})
	}
	before := commandCounts(t, group.Master().Client())
	held := hold(t, e, r)
	must(t, renew(e, t.Context(), r.Resource, held))
	after := commandCounts(t, group.Master().Client())
	if after[command] < before[command]+2 {
		t.Errorf("a grant and a renewal: from %v to %v, want %s twice", before, after, command)
	}
}

// What stands in the way of WAIT is said: a missing right is one that waiting
// cannot mend.
func TestWaitDenied(t *testing.T) {
	group := redistest.StartReplicated(t, 1)
	must(t, group.Master().Client().Do(t.Context(), "acl", "setuser", "app", "on", ">secret", "~*", "&*", "+@all", "-wait").Err())
	rdb := group.Master().Client(func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	e := open(t, rdb, goredis.WithReplicas(1, time.Second))
	_, err := e.Acquire(t.Context(), request("c1.a"))
	wantError(t, "Acquire", err, engine.ErrDenied)
}
