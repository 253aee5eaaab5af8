package main

import (
	"fmt"
	"slices"
	"time"
)

// scenarios lists what is measured.
func scenarios() []scenario {
	return []scenario{uncontended(), spreadOut(), hot(), processes(), handOff(), convoys(), growth(), kills(), quorums(), idle()}
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
			play: crowdOf(gathering{clients: 1, callers: 1, own: true, length: 0.3}),
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
			{"64 on 64", names, crowdOf(gathering{clients: 1, callers: 64, own: true, length: 1}), nil},
			{"256 on 256", names, crowdOf(gathering{clients: 1, callers: 256, own: true, length: 1}), nil},
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
			play:       crowdOf(gathering{clients: 1, callers: 64, length: 2}),
		}},
	}
}

// processes is 8 processes on one resource.
func processes() scenario {
	return scenario{
		name: "processes", title: "8 processes, one resource, zero hold",
		columns: slices.Concat([]metric{handOffs, rate, worstProcess}, withRate),
		cases: []variant{
			{"8 × 8", contested("BLPOP/LPUSH"), crowdOf(gathering{clients: 8, callers: 8, ramp: 100 * time.Millisecond, length: 2}), nil},
			{"8 × 1", contested("BLPOP/LPUSH"), crowdOf(gathering{clients: 8, callers: 1, ramp: 100 * time.Millisecond, length: 2}), nil},
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
				clients: 8, callers: 1, hold: 5 * time.Millisecond, think: 5 * time.Millisecond,
				ramp: 100 * time.Millisecond, length: 2,
			}),
		}},
	}
}

// convoys is many clients that want the lock once each, and wait for it already.
func convoys() scenario {
	sc := scenario{
		name: "convoy", title: "clients that wait for one resource and each hold it once, for 2 ms", rounds: 0.6,
		columns: []metric{drainPart, drainTime, commands, longestWait, serverCPU, clientCPU, gapP50},
	}
	for _, n := range []int{50, 200} {
		sc.cases = append(sc.cases, variant{
			label: fmt.Sprint(n), contenders: contested("BLPOP/LPUSH"), play: convoyOf(n, 2*time.Millisecond),
		})
	}
	return sc
}

// growth is ever more clients that wait for one resource.
func growth() scenario {
	sc := scenario{
		name: "growth", title: "clients that wait for one resource, zero hold", rounds: 0.6,
		columns: slices.Concat([]metric{handOffs, rate}, withRate),
	}
	for _, n := range []int{2, 32, 512, 1000} {
		sc.cases = append(sc.cases, variant{
			label:      fmt.Sprint(n),
			contenders: []string{"BLPOP/LPUSH", "holdfast", "redsync", "redislock, polls at 1 ms", "rueidislock"},
			play:       crowdOf(gathering{clients: n, callers: 1, ramp: 300*time.Millisecond + time.Duration(n)*3*time.Millisecond, length: 2}),
		})
	}
	return sc
}

// kills is a holder that is killed while others wait.
func kills() scenario {
	return scenario{
		name: "kill", title: "the holder is killed; from its lease's end in the store to the next entry", rounds: 0.6,
		columns: []metric{lateP50, lateMax, lateMin},
		cases:   []variant{{contenders: contested(), play: killOf(8)}},
	}
}

// idle is leases that are held for long.
func idle() scenario {
	return scenario{
		name: "idle", title: "held leases, renewed every third of their TTL", rounds: 0.01,
		columns: []metric{clientShare, serverShare, heapEach, stackEach, goroutinesEach, commandsEach, readsEach},
		cases: []variant{
			{"1,000, TTL 6 s", []string{"holdfast", "redsync", "redislock, polls at 1 ms", "rueidislock"}, idleOf(1000, 6*time.Second, 3), nil},
			{"100,000, TTL 15 s", []string{"holdfast"}, idleOf(100_000, 15*time.Second, 2), nil},
		},
	}
}

// quorums is one caller on five independent nodes.
func quorums() scenario {
	names := []string{"holdfast, 5 nodes", "redsync, 5 pools, fail-fast", "redsync, 5 pools"}
	slow := []string{"redsync, 5 pools"}
	return scenario{
		name: "quorum", title: "one caller, a free resource on five nodes", rounds: 0.6,
		columns: []metric{pairTime, longestPair, goroutines, clientCPU, allocations},
		cases: []variant{
			{"all up", names, quorumOf(allUp()), nil},
			{"2 dead", names, quorumOf(dead()), slow},
			{"2 hung", names, quorumOf(hung()), slow},
		},
	}
}
