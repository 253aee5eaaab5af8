package primitivetest_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// redisStore is a Redis on which scripts run.
type redisStore struct{ redis *redistest.Server }

// scriptsAtOnce is how many scripts run at once: most of the time they wait.
const scriptsAtOnce = 12

// seedFlag replays the one script of a seed that a failure has named.
var seedFlag = flag.Int("seed", 0, "play the script of this seed alone")

// settleTimeout bounds what a script waits for.
const settleTimeout = 20 * time.Second

// Each primitive does what its model says, under random programs, on a real Redis:
// the same ones that the root's tests run on memory. Several run at once.
func TestModelsOnRedis(t *testing.T) {
	t.Cleanup(func() { leaktest.Check(t) })
	w := &redisStore{redis: redistest.Start(t)}
	t.Cleanup(func() { w.redis.RequireTTLs(t) })
	m := w.measure(t)
	length := primitivetest.Soak(t, 0)
	for _, p := range primitivetest.Programs() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			played, began := 0, time.Now()
			for played == 0 || time.Since(began) < length && *seedFlag == 0 {
				played += w.playBatch(t, p, m)
			}
			t.Logf("%d scripts; the longest stall was %v", played, m.Since(began).Round(time.Millisecond))
		})
	}
}

// playBatch runs scripts side by side and returns how many.
func (w *redisStore) playBatch(t *testing.T, p primitivetest.Program, m *redistest.Silence) int {
	seeds := []int{*seedFlag}
	if *seedFlag == 0 {
		seeds = make([]int, scriptsAtOnce)
		for i := range seeds {
			seeds[i] = rand.Int()
		}
	}
	var wg sync.WaitGroup
	for _, seed := range seeds {
		wg.Go(func() {
			script := p.Seeded(seed)
			env, end := w.environment(fmt.Sprint(p.Name, " ", seed))
			defer end()
			began := time.Now()
			env.Stalled = func() time.Duration { return m.Since(began) }
			if wrong := script.Play(env); len(wrong) > 0 {
				t.Errorf("-seed %d (the longest stall was %v): %q\n%+v", seed, env.Stalled(), wrong, script)
			}
		})
	}
	wg.Wait()
	return len(seeds)
}

// environment is one in which scripts run eight times as fast as they are written.
func (w *redisStore) environment(prefix string) (s *primitivetest.Environment, end func()) {
	var rdbs []*redis.Client
	var mu sync.Mutex
	node := func() engine.Engine {
		rdb := redis.NewClient(&redis.Options{Addr: w.redis.Addr()})
		mu.Lock()
		defer mu.Unlock()
		rdbs = append(rdbs, rdb)
		return goredis.New(rdb)
	}
	s = &primitivetest.Environment{
		Store: node(), Node: node, Prefix: prefix, Pace: 8, Late: 2 * time.Second,
		Idle: func() {}, Eventually: eventually,
	}
	return s, func() {
		for _, rdb := range rdbs {
			_ = rdb.Close()
		}
	}
}

// measure measures the silence of Redis until the test ends: a time in which it, or this
// process, made no progress.
func (w *redisStore) measure(t *testing.T) *redistest.Silence {
	s := redistest.WatchSilence(&redis.Options{Addr: w.redis.Addr(), ReadTimeout: -1})
	t.Cleanup(s.Stop)
	return s
}

// eventually polls until a condition holds, for at most settleTimeout.
func eventually(holds func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(settleTimeout); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			return holds()
		}
	}
	return true
}
