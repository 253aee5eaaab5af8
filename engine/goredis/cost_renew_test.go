package goredis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/goredis/script"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// heldMany takes so many leases.
func heldMany(t *testing.T, e *goredis.Engine, leases int) []engine.Renewal {
	t.Helper()
	all := make([]engine.Renewal, leases)
	for i := range all {
		r := request(fmt.Sprintf("c0123456789ab.%012d", i))
		r.Resource, r.TTL = named(fmt.Sprint("order:", i)), time.Minute
		all[i] = engine.Renewal{Resource: r.Resource, Held: hold(t, e, r), TTL: r.TTL}
	}
	return all
}

// bareRenewals is what a renewal cannot do without: to read who holds a lease and
// until when, and to write.
const bareRenewals = `local till = redis.call('TIME')[1] + ARGV[1] / 1000000
till = string.format('%.0f000000', till)
for _, core in ipairs(KEYS) do
  redis.call('HMGET', core, 'deadline', 'holder')
  redis.call('HSET', core, 'deadline', till)
end
return 0`

// A renewal among many costs the server at most maxCPU times one HMGET and one
// HSET in a script that decides nothing. As with a pair, the best of three tries
// counts.
func TestServerCostOfARenewal(t *testing.T) {
	const maxCPU, rounds, leases = 1.3, 15, 64 * script.MostRenewed
	server := redistest.Start(t)
	rdb := server.Client()
	scripts, err := script.New(10 * time.Minute)
	must(t, err)
	all := heldMany(t, open(t, rdb), leases)
	bare := rdb.ScriptLoad(t.Context(), bareRenewals).Val()
	var ours, theirs [][]any
	for part := range slices.Chunk(all, script.MostRenewed) {
		var cores, ids []string
		for _, r := range part {
			cores, ids = append(cores, core(r.Resource)), append(ids, r.ID)
		}
		c := scripts.RenewAll(time.Minute, cores, strings.Join(ids, " "))
		must(t, rdb.Do(t.Context(), c.Text()...).Err())
		ours = append(ours, c.Args())
		theirs = append(theirs, slices.Clone(c.Args()))
		theirs[len(theirs)-1][1] = bare
	}
	measure := func(calls [][]any) float64 {
		before := server.CPU()
		for range 4 {
			_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for _, args := range calls {
					p.Do(t.Context(), args...)
				}
				return nil
			})
			must(t, err)
		}
		return float64(server.CPU()-before) / float64(time.Microsecond) / (4 * leases)
	}
	atMost(t, "a renewal costs the server %.2f times its two commands", maxCPU, rounds, func() float64 {
		without := measure(theirs)
		return measure(ours) / without
	})
	for i, args := range ours { // and it was ours that was measured
		if n, err := rdb.Do(t.Context(), args...).Int(); err != nil || n != 0 {
			t.Fatalf("call %d: %d, %v", i, n, err)
		}
	}
}

// A renewal among many makes next to no garbage: a client may have very many.
func TestAllocationsOfRenewals(t *testing.T) {
	const most, leases = 0.5, 512
	e := open(t, redistest.Start(t).Client())
	all := heldMany(t, e, leases)
	each := testing.AllocsPerRun(20, func() {
		for i, err := range e.Renew(t.Context(), all) {
			if err != nil {
				t.Fatalf("lease %d: %v", i, err)
			}
		}
	}) / leases
	t.Logf("%.2f allocations a lease", each)
	if each > most {
		t.Errorf("%.2f allocations a lease, want at most %.1f", each, most)
	}
}
