package main

import (
	"slices"
	"time"
)

// scenarios lists what is measured.
func scenarios() []scenario {
	return []scenario{uncontended(), spreadOut(), hot(), processes(), handOff()}
}

// uncontended is one caller that locks and unlocks a free resource.
func uncontended() scenario {
	return scenario{
		name: "uncontended", title: "one caller, a free resource", rounds: 3,
		columns: []metric{pairTime, longestPair, commands, reads, serverCPU, clientCPU, allocations},
		cases: []variant{{
			contenders: []string{
				"two bare EVALSHA", "two bare EVALSHA, rueidis", "the same scripts, sent by hand", "SET NX PX + compare-and-delete",
				"holdfast", "holdfast, ctx that can end", "redsync", "redislock, polls at 1 ms", "redislock on AutoPipeline", "rueidislock",
			},
			play: crowdOf(gathering{processes: 1, clients: 1, callers: 1, own: true, length: 0.3}),
		}},
	}
}

// spreadOut is many callers of one process, each with a resource of its own.
func spreadOut() scenario {
	names := []string{
		"two bare EVALSHA", "two bare EVALSHA, AutoPipeline", "two bare EVALSHA, rueidis",
		"holdfast", "holdfast, ctx that can end", "redsync", "redislock, polls at 1 ms", "redislock on AutoPipeline", "rueidislock",
	}
	return scenario{
		name: "spread", title: "callers of one process, each with a resource of its own",
		columns: slices.Concat([]metric{rate}, withRate),
		cases: []variant{
			{"64 on 64", names, crowdOf(gathering{processes: 1, clients: 1, callers: 64, own: true, length: 1}), nil},
			{"256 on 256", names, crowdOf(gathering{processes: 1, clients: 1, callers: 256, own: true, length: 1}), nil},
		},
	}
}

// contested are those that wait for one another.
func contested(more ...string) []string {
	return append(more, "holdfast", "redsync", "redsync, polls at 1 ms",
		"redislock, polls at 1 ms", "redislock, polls at 50 ms", "rueidislock")
}

// hot is 64 goroutines of one process on one resource.
func hot() scenario {
	return scenario{
		name: "hot", title: "64 goroutines of one process, one resource",
		columns: slices.Concat([]metric{rate, handOffs}, withRate),
		cases: []variant{{
			contenders: contested("sync.Mutex", "BLPOP/LPUSH"),
			play:       crowdOf(gathering{processes: 1, clients: 1, callers: 64, length: 2}),
		}},
	}
}

// processes is 8 processes on one resource.
func processes() scenario {
	return scenario{
		name: "processes", title: "8 processes, one resource, zero hold",
		columns: slices.Concat([]metric{handOffs, rate, worstProcess}, withRate),
		cases: []variant{
			{"8 × 8", contested("BLPOP/LPUSH"), crowdOf(gathering{processes: 8, clients: 1, callers: 8, ramp: 100 * time.Millisecond, length: 2}), nil},
			{"8 × 1", contested("BLPOP/LPUSH"), crowdOf(gathering{processes: 8, clients: 1, callers: 1, ramp: 100 * time.Millisecond, length: 2}), nil},
		},
	}
}

// handOff is 8 processes that work for 5 ms under the lock and then think.
func handOff() scenario {
	return scenario{
		name: "hand-off", title: "8 processes, holds of 5 ms, then up to 5 ms of other work",
		columns: slices.Concat([]metric{gapP50, gapP99, inUse, rate}, withRate),
		cases: []variant{{
			contenders: contested("BLPOP/LPUSH"),
			play: crowdOf(gathering{
				processes: 8, clients: 1, callers: 1, hold: 5 * time.Millisecond, think: 5 * time.Millisecond,
				ramp: 100 * time.Millisecond, length: 2,
			}),
		}},
	}
}
