package primitivetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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
	// Clockless is set for a store of which each client measures the leases by its own clock.
	Clockless bool
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
			played, calm, began := 0, 0, time.Now()
			for played == 0 || time.Since(began) < length && w.Seed == 0 || w.fewCalm(p, calm) && time.Since(began) < length+calmTimeout {
				of, undisturbed := w.playBatch(t, p)
				played, calm = played+of, calm+undisturbed
			}
			if w.fewCalm(p, calm) {
				t.Errorf("only %d of %d scripts were played without a stall in %v", calm, played, time.Since(began))
			}
			t.Logf("%d scripts, %d without a stall; the longest stall was %v", played, calm, w.Silence(began).Round(time.Millisecond))
		})
	}
}

// calmTimeout is how long scripts are repeated on a machine that stalls.
const calmTimeout = 2 * time.Minute

// fewCalm reports whether so few scripts of a program without faults were played without a
// stall that they show too little: less than a quarter of those that run at once.
func (w RealStore) fewCalm(p Program, calm int) bool {
	return p.faultless && w.Seed == 0 && calm < (w.AtOnce+3)/4
}

// mostPlays is how often a script is played whose failure a stall may have caused.
const mostPlays = 4

// playBatch runs scripts side by side. It returns how many, and how many without a stall.
func (w RealStore) playBatch(t testing.TB, p Program) (played, calm int) {
	seeds := []int{w.Seed}
	if w.Seed == 0 {
		seeds = make([]int, w.AtOnce)
		for i := range seeds {
			seeds[i] = rand.Int()
		}
	}
	var wg sync.WaitGroup
	var undisturbed atomic.Int32
	for _, seed := range seeds {
		wg.Go(func() {
			if w.play(t, p, seed) {
				undisturbed.Add(1)
			}
		})
	}
	wg.Wait()
	return len(seeds), int(undisturbed.Load())
}

// play runs a script, and again if a stall may be the cause of a failure. A script that fails
// every time fails. It returns whether the script was played without a stall.
func (w RealStore) play(t testing.TB, p Program, seed int) (calm bool) {
	script := p.Seeded(seed)
	for n := 1; ; n++ {
		env, end := w.environment(t, fmt.Sprint(p.Name, " ", seed, " ", n))
		wrong := script.Play(env)
		stalled, calm, dropped := env.Stalled(), !env.disturbed(), env.Dropped()
		end()
		switch {
		case len(wrong) > 0:
			t.Errorf("-seed %d (the longest stall was %v): %q\n%+v", seed, stalled, wrong, script)
		case len(dropped) > 0 && n < mostPlays:
			t.Logf("-seed %d is played again, after a stall of %v: %q", seed, stalled, dropped)
			continue
		case len(dropped) > 0:
			t.Errorf("-seed %d failed in %d plays, each with a stall, the last of %v: %q\n%+v", seed, n, stalled, dropped, script)
		}
		return calm
	}
}

// environment is one in which scripts run eight times as fast as they are written.
func (w RealStore) environment(t testing.TB, prefix string) (s *Environment, end func()) {
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
		Store: node(), Node: node, Prefix: prefix, Pace: 8, Late: 2 * time.Second, Clockless: w.Clockless,
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
