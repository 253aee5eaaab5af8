package goredis_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/script"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A reader's or a semaphore's pair costs the server at most maxShared times what
// a mutex's does, however many others hold. The kinds run in turn, so that a
// busy machine slows all of them; the median of the rounds counts.
func TestServerCostOfASharedPair(t *testing.T) {
	const maxShared, rounds, pairs = 1.5, 21, 1000
	server := redistest.Start(t)
	rdb := server.Client()
	scripts, err := script.New(10 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	mutex := costPair(t, rdb, scripts, script.Acquire{Kind: "mutex", Capacity: 1}, 0)
	type shared struct {
		name string
		pair func(redis.Pipeliner)
	}
	var all []shared
	for _, others := range []int{0, 1, 10, 100, 1000} {
		all = append(all,
			shared{fmt.Sprintf("reader beside %d", others), costPair(t, rdb, scripts, script.Acquire{Kind: "rw", Capacity: 1 << 20}, others)},
			shared{fmt.Sprintf("semaphore beside %d", others), costPair(t, rdb, scripts, script.Acquire{Kind: "semaphore", Capacity: 2000}, others)})
	}
	measure := func(pair func(redis.Pipeliner)) float64 {
		spend(t, rdb, pairs/10, pair)
		before := server.CPU()
		spend(t, rdb, pairs, pair)
		return float64(server.CPU()-before) / float64(time.Microsecond) / pairs
	}
	// As with a mutex's pair, a neighbour on the machine can raise a ratio for a
	// while: the best of three tries counts.
	least := make([]float64, len(all))
	for try := range 3 {
		ratios, over := make([][]float64, len(all)), false
		for range rounds {
			base := measure(mutex)
			for i, s := range all {
				ratios[i] = append(ratios[i], measure(s.pair)/base)
			}
		}
		for i, s := range all {
			slices.Sort(ratios[i])
			median := ratios[i][rounds/2]
			t.Logf("%s: %.2f times a mutex's (%.2f to %.2f)", s.name, median, ratios[i][0], ratios[i][rounds-1])
			if try == 0 || median < least[i] {
				least[i] = median
			}
			over = over || least[i] > maxShared
		}
		if !over {
			return
		}
	}
	for i, s := range all {
		if least[i] > maxShared {
			t.Errorf("%s: a pair costs the server %.2f times a mutex's, want at most %.1f", s.name, least[i], maxShared)
		}
	}
}

// costPair makes the calls of one pair on a resource of its own that so many
// others hold.
func costPair(t *testing.T, rdb *redis.Client, scripts *script.Set, a script.Acquire, others int) func(redis.Pipeliner) {
	t.Helper()
	core := fmt.Sprintf("p:{%s:%d}", a.Kind, others)
	keys := script.KeysOf(core)
	a.Weight, a.TTL, a.Queue = 1, 15*time.Second, true
	load := func(id string, ttl time.Duration) script.Call {
		a.ID, a.TTL = id, ttl
		c := scripts.Acquire(keys, a)
		must(t, rdb.Do(t.Context(), c.Text()...).Err())
		return c
	}
	for i := range others {
		load(fmt.Sprintf("0123456789abcdef0123.%016x", i), time.Hour)
	}
	const id = "0123456789abcdef0123.0123456789abcdef"
	acquire := load(id, 15*time.Second)
	release := scripts.Release(keys, script.Release{ID: id, Token: 1})
	must(t, rdb.Do(t.Context(), release.Text()...).Err())
	return func(p redis.Pipeliner) {
		p.Do(t.Context(), acquire.Args()...)
		p.Do(t.Context(), release.Args()...)
	}
}
