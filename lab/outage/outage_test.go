package outage

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
)

var plan = Plan{Outages: 3}

func TestMain(m *testing.M) {
	logging.Disable() // of dials to a store that is down
	if ServeWorker() {
		return
	}
	flag.IntVar(&plan.Outages, "outages", plan.Outages, "number of outages of a run, of six seconds each")
	flag.Uint64Var(&plan.Seed, "seed", uint64(time.Now().UnixNano()), "seed of the outages")
	flag.Parse()
	os.Exit(m.Run())
}

// Over outages, each fallback keeps what it promises, and no more: judged by the next stronger one, it is broken.
func TestFallbacksOverOutages(t *testing.T) {
	for _, one := range []struct {
		fallback, stronger holdfast.Fallback
	}{
		{fallback: holdfast.FailClosed},
		{fallback: holdfast.LocalOnly, stronger: holdfast.FailClosed},
		{fallback: holdfast.FailOpen, stronger: holdfast.LocalOnly},
	} {
		t.Run(one.fallback.String(), func(t *testing.T) {
			t.Parallel()
			h := run(t, plan, one.fallback)
			r := h.judge(one.fallback)
			t.Logf("seed %d: %d outages, %d turns, %d of them without the store, %d pairs at once", plan.Seed, r.Outages, r.Turns, r.Local, r.Shared)
			for _, broken := range r.Broken {
				t.Error(broken)
			}
			if r.Turns == 0 {
				t.Error("no turn was recorded")
			}
			if one.fallback != holdfast.FailClosed && (r.Local == 0 || len(h.judge(one.stronger).Broken) == 0) {
				t.Error("the run shows nothing: it also keeps what a stronger fallback promises")
			}
		})
	}
}

// What the judge finds.
func TestJudge(t *testing.T) {
	const ms = int64(time.Millisecond)
	at := func(process int, call, enter, leave int64, token uint64) turn {
		return turn{Process: process, Call: call * ms, Enter: enter * ms, Leave: leave * ms, Local: token == 0, Token: token}
	}
	outage := []down{{time.Unix(0, 10_000*ms), time.Unix(0, 12_990*ms), time.Unix(0, 13_000*ms)}}
	around := func(turns ...turn) []turn {
		return append(turns, at(0, 11_000, 11_001, 11_002, 0), at(1, 11_010, 11_011, 11_012, 0), at(0, 13_100, 13_101, 13_102, 90), at(1, 13_200, 13_201, 13_202, 91))
	}
	for _, one := range []struct {
		name     string
		fallback holdfast.Fallback
		turns    []turn
		broken   int
	}{
		{"falls back and returns", holdfast.LocalOnly, around(), 0},
		{"of the store at once", holdfast.FailOpen, around(at(0, 1, 2, 9, 1), at(1, 3, 5, 8, 2)), 1},
		{"a token that does not rise", holdfast.FailOpen, around(at(0, 1, 2, 3, 2), at(1, 3, 5, 8, 2)), 1},
		{"local in two processes", holdfast.LocalOnly, around(at(0, 11_100, 11_101, 11_110, 0), at(1, 11_102, 11_103, 11_104, 0)), 0},
		{"local in one process", holdfast.LocalOnly, around(at(0, 11_100, 11_101, 11_110, 0), at(0, 11_102, 11_103, 11_104, 0)), 1},
		{"open in one process", holdfast.FailOpen, around(at(0, 11_100, 11_101, 11_110, 0), at(0, 11_102, 11_103, 11_104, 0)), 0},
		{"local while the store is up", holdfast.LocalOnly, around(at(0, 9_000, 9_001, 9_002, 0)), 1},
		{"local long after the outage", holdfast.LocalOnly, around(at(0, 14_600, 14_601, 14_602, 0)), 1},
		{"a lease of the store after its TTL", holdfast.FailOpen, around(at(0, 10_900, 10_901, 10_902, 50)), 1},
		{"a lease of the store within its TTL", holdfast.FailOpen, around(at(0, 10_500, 10_501, 10_502, 50)), 0},
		{"closed, and local", holdfast.FailClosed, around(), 2},
		{"no fallback", holdfast.FailOpen, []turn{at(0, 13_100, 13_101, 13_102, 90), at(1, 13_200, 13_201, 13_202, 91)}, 2},
		{"no return", holdfast.FailClosed, []turn{at(1, 13_200, 13_201, 13_202, 91)}, 1},
	} {
		t.Run(one.name, func(t *testing.T) {
			r := judge(one.turns, outage, 2, one.fallback, func(_, _ time.Time) time.Duration { return 0 })
			if len(r.Broken) != one.broken {
				t.Errorf("found %q, want %d", r.Broken, one.broken)
			}
		})
	}
}
