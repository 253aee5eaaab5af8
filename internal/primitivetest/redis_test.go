package primitivetest_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// store is a Redis on which scripts are played.
type store struct{ redis *redistest.Server }

// beside is how many scripts are played at once: most of the time they wait.
const beside = 12

// seedFlag replays the one script of a seed that a failure has named.
var seedFlag = flag.Int("seed", 0, "play the script of this seed alone")

// patience bounds what a script waits for.
const patience = 20 * time.Second

// Each primitive does what its model says, under random programs, on a real Redis:
// the same ones that the root's tests play on memory. Several are played at once.
func TestModelsOnRedis(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	w := &store{redis: redistest.Start(t)}
	t.Cleanup(func() { w.redis.RequireTTLs(t) })
	m := w.measure(t)
	length := primitivetest.Soak(t, 0)
	for _, p := range primitivetest.Programs() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			played, began := 0, time.Now()
			for played == 0 || time.Since(began) < length && *seedFlag == 0 {
				played += w.playSome(t, p, m)
			}
			t.Logf("%d scripts; for %v nothing went on", played, m.since(began).Round(time.Millisecond))
		})
	}
}

// playSome plays scripts side by side and returns how many.
func (w *store) playSome(t *testing.T, p primitivetest.Program, m *meter) int {
	seeds := []int{*seedFlag}
	if *seedFlag == 0 {
		seeds = make([]int, beside)
		for i := range seeds {
			seeds[i] = rand.Int()
		}
	}
	var wg sync.WaitGroup
	for _, seed := range seeds {
		wg.Go(func() {
			script := p.Seeded(seed)
			stage, end := w.stage(fmt.Sprint(p.Name, " ", seed))
			defer end()
			began := time.Now()
			stage.Stood = func() time.Duration { return m.since(began) }
			if wrong := script.Play(stage); len(wrong) > 0 {
				t.Errorf("-seed %d (all stood still for %v): %q\n%+v", seed, stage.Stood(), wrong, script)
			}
		})
	}
	wg.Wait()
	return len(seeds)
}

// stage is one on which scripts are played eight times as fast as they are written.
func (w *store) stage(prefix string) (s *primitivetest.Stage, end func()) {
	var rdbs []*redis.Client
	var mu sync.Mutex
	node := func() engine.Engine {
		rdb := redis.NewClient(&redis.Options{Addr: w.redis.Addr()})
		mu.Lock()
		defer mu.Unlock()
		rdbs = append(rdbs, rdb)
		return goredis.New(rdb)
	}
	s = &primitivetest.Stage{
		Store: node(), Node: node, Prefix: prefix, Pace: 8, Late: 2 * time.Second,
		Rest: func() {}, Settle: settle,
	}
	return s, func() {
		for _, rdb := range rdbs {
			_ = rdb.Close()
		}
	}
}

// meter looks how long a round trip to Redis takes, all the time.
type meter struct {
	mu    sync.Mutex
	slow  []stand
	begun time.Time // of the round trip that is under way, with the pause before it
}

// stand is a time in which nothing went on.
type stand struct {
	end  time.Time
	took time.Duration
}

// measure begins, and ends with the test.
func (w *store) measure(t *testing.T) *meter {
	m := &meter{begun: time.Now()}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	rdb := redis.NewClient(&redis.Options{Addr: w.redis.Addr(), ReadTimeout: -1})
	t.Cleanup(func() {
		stop()
		<-ended
		_ = rdb.Close()
	})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			_ = rdb.Ping(ctx).Err() // what counts is when it comes back
			m.mu.Lock()
			now := time.Now()
			if took := now.Sub(m.begun); took > 100*time.Millisecond {
				m.slow = append(m.slow, stand{now, took})
			}
			m.begun = now
			m.mu.Unlock()
		}
	}()
	return m
}

// since is the longest stand that ended after a time, or has not ended yet.
func (m *meter) since(t time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	longest := time.Since(m.begun)
	for _, s := range m.slow {
		if s.end.After(t) {
			longest = max(longest, s.took)
		}
	}
	return longest
}

// settle looks until something has come about, for as long as patience lasts.
func settle(comes func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !comes(); {
		select {
		case <-tick.C:
		case <-deadline:
			return comes()
		}
	}
	return true
}
