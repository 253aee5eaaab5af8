package primitivetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// RealStore is a store outside this process, on which programs run in real time.
type RealStore struct {
	// Open returns the engine of one more client, and what ends its connections.
	Open func() (e engine.Engine, end func(), err error)
	// Silence returns the longest time after an instant in which the store, or this process,
	// did not respond.
	Silence func(since time.Time) time.Duration
	// AtOnce is how many scripts of a program run at once: most of the time they wait.
	AtOnce int
	// Seed selects the one script to run, as a failure has named it; 0: random ones.
	Seed int
}

// Run runs random scripts of every program: some of each, and more for the length of Soak.
func (w RealStore) Run(t *testing.T) {
	length := Soak(t, 0)
	for _, p := range Programs() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			played, began := 0, time.Now()
			for played == 0 || time.Since(began) < length && w.Seed == 0 {
				played += w.playBatch(t, p)
			}
			t.Logf("%d scripts; the longest stall was %v", played, w.Silence(began).Round(time.Millisecond))
		})
	}
}

// playBatch runs scripts side by side and returns how many.
func (w RealStore) playBatch(t *testing.T, p Program) int {
	seeds := []int{w.Seed}
	if w.Seed == 0 {
		seeds = make([]int, w.AtOnce)
		for i := range seeds {
			seeds[i] = rand.Int()
		}
	}
	var wg sync.WaitGroup
	for _, seed := range seeds {
		wg.Go(func() {
			script := p.Seeded(seed)
			env, end := w.environment(t, fmt.Sprint(p.Name, " ", seed))
			defer end()
			if wrong := script.Play(env); len(wrong) > 0 {
				t.Errorf("-seed %d (the longest stall was %v): %q\n%+v", seed, env.Stalled(), wrong, script)
			}
		})
	}
	wg.Wait()
	return len(seeds)
}

// environment is one in which scripts run eight times as fast as they are written.
func (w RealStore) environment(t *testing.T, prefix string) (s *Environment, end func()) {
	var ends []func()
	node := func() engine.Engine {
		e, end, err := w.Open()
		if err != nil {
			t.Error(err)
			panic(err)
		}
		ends = append(ends, end)
		return e
	}
	began := time.Now()
	s = &Environment{
		Store: node(), Node: node, Prefix: prefix, Pace: 8, Late: 2 * time.Second,
		Idle: func() {}, Eventually: eventually, Stalled: func() time.Duration { return w.Silence(began) },
	}
	return s, func() {
		s.Store.Leave("")
		for _, end := range ends {
			end()
		}
	}
}

// settleTimeout bounds what a script waits for.
const settleTimeout = 20 * time.Second

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

// Ping makes a change in a store, which has to respond.
func Ping(ctx context.Context, e engine.Engine, res engine.Resource) error {
	r := engine.Request{Resource: res, ID: fmt.Sprintf("ping-%x", rand.Uint64()), Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Minute}
	a, err := e.Acquire(ctx, r)
	if err != nil || a.Status != engine.Granted {
		return fmt.Errorf("a ping: %v: %w", a.Status, err)
	}
	return e.Release(ctx, engine.Release{Resource: res, Held: engine.Held{ID: r.ID, Token: a.Token}})
}
