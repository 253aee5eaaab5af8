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

// scriptsAtOnce is the number of scripts that run at once. They wait most of the time.
const scriptsAtOnce = 12

// seedFlag is the seed of a script that is run again.
var seedFlag = flag.Int("seed", 0, "play the script of this seed alone")

// settleTimeout is the timeout of eventually.
const settleTimeout = 20 * time.Second

// Each primitive matches its model on a real Redis. The root's tests run the same programs
// in virtual time.
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

// playBatch runs scripts concurrently and returns their number.
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

// environment returns an environment that divides the times of a script by eight, and a
// function that closes its connections.
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

// measure watches, until the test ends, for stalls of Redis and of this process.
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
