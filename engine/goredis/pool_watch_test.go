package goredis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// take takes two connections of a client's pool, by commands that wait for long,
// and returns when both are under way. The test ends them.
func take(t *testing.T, rdb redis.UniversalClient, at *redistest.Server, key string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { rdb.BLPop(ctx, time.Minute, key) })
	}
	t.Cleanup(func() {
		cancel()
		must(t, at.Client().RPush(context.Background(), key, 1, 2).Err())
		both.Wait()
	})
	until(t, "the connections are taken", func() bool {
		info, err := at.Client().InfoMap(t.Context(), "clients").Result()
		return err == nil && info["Clients"]["blocked_clients"] == "2"
	})
}

// The caller's pool has no connection to give for as long as the test lasts: nobody
// who waits, holds or asks notices, be it a pool that lets calls wait or one that
// refuses them.
func TestExhaustedPoolDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	cluster, single := redistest.StartCluster(t), redistest.Start(t)
	replicated := redistest.StartReplicated(t, 1)
	home := cluster.MasterOf(tag("stock:42"))
	pools := func(o *redis.Options) { o.PoolSize = 2 }
	for what, c := range map[string]struct {
		rdb  redis.UniversalClient
		at   *redistest.Server
		opts []goredis.Option
	}{
		"PoolSize":       {single.Client(pools), single, nil},
		"one pool":       {single.Client(pools, func(o *redis.Options) { o.PipelinePoolSize = -1 }), single, nil},
		"MaxActiveConns": {single.Client(func(o *redis.Options) { o.MaxActiveConns = 2 }), single, nil},
		"cluster":        {cluster.Client(func(o *redis.ClusterOptions) { o.PoolSize = 2 }), home, nil},
		"replicas":       {replicated.Master().Client(pools), replicated.Master(), []goredis.Option{goredis.WithReplicas(1, time.Second)}},
	} {
		t.Run(what, func(t *testing.T) {
			must(t, c.at.Client().FlushAll(t.Context()).Err())
			e := open(t, c.rdb, c.opts...)
			held := hold(t, e, request("c1.a"))
			waiter := request("c2.b")
			wait(t, e, waiter)
			take(t, c.rdb, c.at, "{stock:42}:list")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // of PoolTimeout's 4 s, and BLPOP's minute
			defer cancel()
			wait(t, inTime{e, ctx}, waiter) // a poll
			first := request("c3.c")
			first.Client, first.Queue = &engine.Client{ID: "c3", Name: "new"}, false
			if a, err := e.Acquire(ctx, first); err != nil || a.Status != engine.Busy || a.Holder.ID != held.ID {
				t.Errorf("TryLock of a new client: %+v, %v", a, err)
			}
			must(t, renew(e, ctx, named("stock:42"), held))
			var many sync.WaitGroup
			for i := range 16 {
				many.Go(func() {
					r := request(fmt.Sprint("c1.m", i))
					r.Resource = named(fmt.Sprint("{stock:42}", i))
					if a, err := e.Acquire(ctx, r); err != nil || a.Status != engine.Granted {
						t.Errorf("one of many: %+v, %v", a, err)
					}
				})
			}
			many.Wait()
			must(t, e.Release(ctx, engine.Release{Resource: named("stock:42"), Held: held}))
			if a, err := e.Acquire(ctx, waiter); err != nil || a.Status != engine.Granted {
				t.Errorf("the waiter: %+v, %v", a, err)
			}
			if _, err := e.Snapshot(ctx, named("stock:42")); err != nil {
				t.Errorf("Snapshot: %v", err)
			}
			if _, err := e.Now(ctx); err != nil {
				t.Errorf("Now: %v", err)
			}
			withdraw := engine.Release{Resource: named("stock:42"), Held: engine.Held{ID: waiter.ID}, Withdraw: true}
			must(t, e.Release(ctx, withdraw))
			other := named("{stock:42}0")
			must(t, e.Release(context.Background(), engine.Release{Resource: other, Held: engine.Held{ID: "c1.m0"}, Withdraw: true}))
		})
	}
}

// inTime is an engine all of whose calls have one ctx.
type inTime struct {
	*goredis.Engine
	ctx context.Context
}

func (e inTime) Acquire(_ context.Context, r engine.Request) (engine.Answer, error) {
	return e.Engine.Acquire(e.ctx, r)
}

// interrupted calls a function before and after the first pipeline of scripts, or after the first script that is sent
// as a text.
type interrupted struct {
	gate          chan struct{} // the first calls wait until it is closed
	held          atomic.Int32  // number of calls that have waited
	before, after func()
	afterText     func()
	pipeline      sync.Once
	text          sync.Once
}

func (h *interrupted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *interrupted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if isScript(cmd) {
			h.held.Add(1)
			<-h.gate
		}
		err := next(ctx, cmd)
		if cmd.Name() == "eval" {
			h.text.Do(h.afterText)
		}
		return err
	}
}

func (h *interrupted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		first := false
		if isScript(cmds[0]) {
			h.pipeline.Do(func() { first = true; h.before() })
		}
		err = next(ctx, cmds)
		if first {
			h.after()
		}
		return err
	}
}

// The server does not have the script that a pipeline uses, so its calls are made again, alone. If the pool has no free
// connection by then, they are made over the engine's own.
func TestPoolIsExhaustedAfterAPipelineWithoutScripts(t *testing.T) {
	for _, when := range []string{"after the pipeline", "after the first call"} {
		t.Run(when, func(t *testing.T) {
			server := redistest.Start(t)
			rdb := server.Client(func(o *redis.Options) { o.PoolSize = 2 })
			e := open(t, rdb)
			must(t, e.Release(t.Context(), engine.Release{Resource: named("stock:42"), Held: hold(t, e, request("c1.a"))}))
			e.Settle() // its calls would be among those that are held up
			nothing := func() {}
			h := &interrupted{gate: make(chan struct{}), after: nothing, afterText: nothing,
				before: func() { must(t, server.Client().ScriptFlush(context.Background()).Err()) }}
			if when == "after the pipeline" {
				h.after = e.EndPoolWaits
			} else {
				h.afterText = e.EndPoolWaits
			}
			rdb.AddHook(h)
			var all sync.WaitGroup
			for i := range 5 { // more would be merged into one
				all.Go(func() {
					r := request(fmt.Sprint("c1.m", i))
					r.Resource = named(fmt.Sprint("many:", i))
					if a, err := e.Acquire(t.Context(), r); err != nil || a.Status != engine.Granted {
						t.Errorf("%+v, %v", a, err)
					}
				})
				// The first two are sent alone; the others wait for them.
				until(t, "the call is on its way", func() bool {
					return int(h.held.Load()) == min(i+1, 2) && e.BatchDepth().Waiting == max(i-1, 0)
				})
			}
			close(h.gate)
			all.Wait()
		})
	}
}

// A call whose ctx has ended is still running when the last client leaves, and finds the pool exhausted. The connection
// that it opens then is closed with the others.
func TestLateCallLeavesNoConnection(t *testing.T) {
	server := redistest.Start(t)
	rdb, admin := server.Client(), server.Client()
	connections := func() int {
		list, err := admin.ClientList(t.Context()).Result()
		must(t, err)
		return strings.Count(list, "\n")
	}
	e := open(t, rdb)
	held := hold(t, e, request("c1.a"))
	before := connections()
	must(t, renew(e, t.Context(), named("stock:42"), held)) // opens an own connection
	h := &interrupted{gate: make(chan struct{}), before: func() {}, after: func() {}, afterText: func() {}}
	rdb.AddHook(h)
	ctx, cancel := context.WithCancel(t.Context())
	var late, left sync.WaitGroup
	late.Go(func() { _, _ = e.Acquire(ctx, requestOf("late", "c1.late")) })
	until(t, "the call is on its way", func() bool { return h.held.Load() == 1 })
	e.EndPoolWaits()
	cancel()
	late.Wait()
	left.Go(func() { e.Leave("c1") })
	until(t, "the own connection is closed", func() bool { return connections() == before })
	close(h.gate)
	left.Wait()
	if n, err := admin.Exists(t.Context(), prefix+":{late}").Result(); n != 1 {
		t.Errorf("the call was not made over a new connection: %v", err)
	}
	until(t, "the new one is closed", func() bool { return connections() == before })
}
