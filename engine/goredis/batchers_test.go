package goredis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// On a cluster concurrent calls share pipelines too, and each of these goes to
// one master.
func TestConcurrentCallsToAClusterAreCombined(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client()
	first := open(t, rdb)
	for _, name := range spread(cluster, "stock:") { // every master knows the scripts
		release(t, first, named(name), hold(t, first, requestOf(name, "c1.first")))
	}
	count, nodes := &traffic{}, &traffic{}
	rdb.AddHook(count)
	must(t, rdb.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error {
		node.AddHook(nodes)
		return nil
	}))
	combines(t, open(t, rdb), count, 0)
	if whole, parts := count.batches.Load(), nodes.batches.Load(); parts != whole {
		t.Errorf("%d batches were sent in %d parts", whole, parts)
	}
	mendedOnEachNode(t, cluster, rdb)
}

// mendedOnEachNode sends one pipeline to all masters, as one that is redirected may be, when none has its script.
func mendedOnEachNode(t *testing.T, cluster *redistest.Cluster, rdb redis.UniversalClient) {
	t.Helper()
	scripts, err := script.New(10 * time.Minute)
	must(t, err)
	var all []script.Call
	for range 4 {
		for s, name := range spread(cluster, "stock:") {
			must(t, s.Client().ScriptFlush(t.Context()).Err())
			all = append(all, scripts.Snapshot(script.KeysOf([]byte(prefix+":{"+name+"}")), script.Snapshot{Most: 1}))
		}
	}
	for i, err := range goredis.Batch(t.Context(), rdb, all) {
		if err != nil {
			t.Errorf("call %d of %d: %v", i, len(all), err)
		}
	}
}

// Many callers of the masters that answer do not wait for one that hangs, however
// many wait for that one.
func TestHungMasterDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	e := open(t, cluster.Client())
	var hung *redistest.Server
	var dead string
	var live []string
	for s, name := range spread(cluster, "stock:") {
		release(t, e, named(name), hold(t, e, requestOf(name, "c1.first")))
		if hung == nil {
			hung, dead = s, name
		} else {
			live = append(live, name)
		}
	}
	hung.Pause()
	lost, stopWaiting := context.WithCancel(t.Context())
	var stuck, others sync.WaitGroup
	for i := range 32 {
		stuck.Go(func() { _, _ = e.Acquire(lost, requestOf(dead, fmt.Sprint("c1.lost", i))) }) // it ends by its ctx
	}
	for i := range 32 {
		others.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // less than the read timeout
			defer cancel()
			for k := range 20 {
				r := requestOf(live[i%len(live)], fmt.Sprintf("c1.%d-%d", i, k))
				a, err := e.Acquire(ctx, r)
				if err == nil && a.Status == engine.Granted {
					err = e.Release(ctx, engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}})
				}
				if err != nil {
					t.Errorf("a master that answers: %v", err)
					return
				}
			}
		})
	}
	others.Wait()
	stopWaiting()
	stuck.Wait()
	hung.Resume()
	until(t, "it answers again", func() bool {
		_, err := e.Snapshot(t.Context(), named(dead))
		return err == nil
	})
}

func requestOf(name, id string) engine.Request {
	r := request(id)
	r.Resource = named(name)
	return r
}
