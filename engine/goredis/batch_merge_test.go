package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// joiner sends every call that can go into a call for many as one of these.
type joiner struct {
	acquire, release any // their SHA1
	batch            script.Call
	joined, left     int
}

func newJoiner(t *testing.T) *joiner {
	scripts, err := script.NewWith(time.Minute, virtual())
	must(t, err)
	keys := script.KeysOf([]byte("x"))
	acquire := scripts.Acquire(keys, script.Acquire{Capacity: 1})
	return &joiner{
		acquire: acquire.Args()[1], release: scripts.Release(keys, script.Release{}).Args()[1],
		batch: scripts.Batch([]script.Call{acquire}),
	}
}

func (j *joiner) DialHook(next redis.DialHook) redis.DialHook { return next }

func (j *joiner) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (j *joiner) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		count := len(args) - 5
		switch {
		case !isScript(cmd) || args[1] != j.acquire && args[1] != j.release:
			return next(ctx, cmd)
		case args[1] == j.release:
			count = -count
		}
		all := append([]any{"eval", j.batch.Text()[1], 2, args[3], args[4], count}, args[5:]...)
		many := redis.NewCmd(ctx, all...)
		if err := next(ctx, many); err != nil {
			cmd.SetErr(err)
			return err
		}
		j.joined++
		values, ok := script.ReadBatch(many.Val(), 1)
		if !ok || values[0] == nil {
			j.left++
			return next(ctx, cmd)
		}
		cmd.(interface{ SetVal(any) }).SetVal(values[0])
		return nil
	}
}

// In a call for many, acquire and release do what they do by themselves.
func TestBatchesFollowTheSpecOnRedis(t *testing.T) {
	j := newJoiner(t)
	rdb := redistest.Start(t).Client()
	rdb.AddHook(j)
	differential(t, rdb, time.Millisecond, 1000, 30)
	if j.joined == 0 || j.left != 0 {
		t.Errorf("%d calls went into one for many, which left %d of them", j.joined, j.left)
	}
}

func TestBatchesFollowTheSpecOnMiniredis(t *testing.T) {
	j := newJoiner(t)
	rdb := redistest.StartMiniredis(t).Client()
	rdb.AddHook(j)
	differential(t, rdb, time.Second, 100, 20)
	if j.joined == 0 || j.left != 0 {
		t.Errorf("%d calls went into one for many, which left %d of them", j.joined, j.left)
	}
}

// crush makes calls that go out in one batch: the server sleeps until all lanes
// are in use and the others wait.
func crush(t *testing.T, server *redistest.Server, e *goredis.Engine, count *traffic, calls []func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	server.Pause()
	var wg sync.WaitGroup
	fillLanes(ctx, t, e, count, &wg)
	for _, call := range calls {
		wg.Go(func() { call(ctx) })
	}
	until(t, "all calls wait for a lane", func() bool { return e.BatchDepth().Waiting == len(calls) })
	server.Resume()
	wg.Wait()
}

// Each of a batch gets its own answer, whatever becomes of the others.
func TestEachOfABatchHasItsOwnAnswer(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	held := hold(t, e, requestOf("held", "c1.held"))
	mine := hold(t, e, requestOf("mine", "c1.mine"))
	must(t, rdb.Set(t.Context(), prefix+":{broken}", "not a hash", 0).Err())
	count := &traffic{sent: make(chan struct{}, 64)}
	rdb.AddHook(count)
	acquires := func(name, id string, status engine.Status, want error) func(ctx context.Context) {
		return func(ctx context.Context) {
			a, err := e.Acquire(ctx, requestOf(name, id))
			if a.Status != status || !errors.Is(err, want) {
				t.Errorf("%s: %+v, %v", name, a, err)
			}
		}
	}
	crush(t, server, e, count, []func(ctx context.Context){
		acquires("free", "c1.free", engine.Granted, nil),
		acquires("held", "c1.waits", engine.Queued, nil),
		acquires("broken", "c1.broken", 0, engine.ErrDenied),
		acquires("also free", "c1.also", engine.Granted, nil),
		func(ctx context.Context) {
			if err := e.Release(ctx, engine.Release{Resource: named("mine"), Held: mine}); err != nil {
				t.Errorf("mine: %v", err)
			}
		},
		func(ctx context.Context) {
			err := e.Release(ctx, engine.Release{Resource: named("held"), Held: engine.Held{ID: "c1.nobody", Token: 1}})
			if _, ok := errors.AsType[*engine.NotHeldError](err); !ok {
				t.Errorf("nobody's: %v", err)
			}
		},
		func(ctx context.Context) {
			if a, err := e.Acquire(ctx, shared("c1.shared", 2)); err != nil || a.Status != engine.Granted {
				t.Errorf("shared: %+v, %v", a, err)
			}
		},
	})
	release(t, e, named("held"), held)
	if snap, err := e.Snapshot(t.Context(), named("held")); err != nil || len(snap.Holders) != 1 || snap.Holders[0].ID != "c1.waits" {
		t.Errorf("after the release: %+v, %v", snap, err)
	}
}

// Polls of waiters are costly, so the server does not make all of a batch at once. Each has its answer
// all the same.
func TestEachOfManyPollsHasItsAnswer(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	hold(t, e, requestOf("line", "c1.held"))
	var polls []func(ctx context.Context)
	for i := range script.MaxBatch {
		r := requestOf("line", fmt.Sprintf("c1.%d", i))
		wait(t, e, r)
		polls = append(polls, func(ctx context.Context) {
			if a, err := e.Acquire(ctx, r); err != nil || a.Status != engine.Queued || a.Position != i {
				t.Errorf("%s: %+v, %v", r.ID, a, err)
			}
		})
	}
	count := &traffic{sent: make(chan struct{}, 64)}
	rdb.AddHook(count)
	crush(t, server, e, count, polls)
}

// A server without memory lets go what is released in batches.
func TestBatchesWithoutMemory(t *testing.T) {
	const holders = 64
	rdb := redistest.Start(t).Client()
	e := open(t, rdb)
	var held [holders]engine.Held
	for i := range held {
		held[i] = hold(t, e, requestOf(fmt.Sprint("stock:", i), fmt.Sprint("c1.", i)))
	}
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	var wg sync.WaitGroup
	for i, h := range held {
		wg.Go(func() {
			if err := e.Release(context.Background(), engine.Release{Resource: named(fmt.Sprint("stock:", i)), Held: h}); err != nil {
				t.Errorf("release: %v", err)
			}
			_, err := e.Acquire(context.Background(), requestOf(fmt.Sprint("new:", i), fmt.Sprint("c2.", i)))
			if err != nil && !errors.Is(err, engine.ErrUnavailable) {
				t.Errorf("acquire: %v", err)
			}
		})
	}
	wg.Wait()
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	for i := range held {
		if snap, err := e.Snapshot(t.Context(), named(fmt.Sprint("stock:", i))); err != nil || len(snap.Holders) != 0 {
			t.Errorf("left: %+v, %v", snap, err)
		}
	}
}

// A server that does not take keys of many slots in one call, as a node of a
// cluster, gets a call for each.
func TestBatchesOnANodeOfACluster(t *testing.T) {
	t.Parallel()
	for node, name := range spread(redistest.StartCluster(t), "stock:") {
		e := open(t, node.Client())
		granted := 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				_, err := e.Acquire(context.Background(), requestOf(fmt.Sprint(name, ":", i), fmt.Sprint("c1.", i)))
				var answered redis.Error
				switch {
				case err == nil:
					mu.Lock()
					granted++
					mu.Unlock()
				case !errors.As(err, &answered) || !strings.HasPrefix(answered.Error(), "MOVED"):
					t.Errorf("acquire: %v", err)
				}
			})
		}
		wg.Wait()
		if granted == 0 {
			t.Error("the node granted nothing")
		}
		return
	}
}
