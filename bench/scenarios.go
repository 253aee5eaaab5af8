package main

import (
	"fmt"
	"slices"
	"time"
)

// program is the sizes of the scenarios.
type program struct {
	spread  []int // callers, each with its own resource
	crowd   int   // goroutines on one resource
	wide    int   // callers on several servers
	convoys []int
	growth  []int
	kills   int // resources of the killed holder
	visits  int // resources
	listed  int // leases
	idle    []idleSize
	stores  storeSizes
}

// idleSize is a number of leases that are held for some renewal intervals, each a
// third of the TTL.
type idleSize struct {
	leases    int
	ttl       time.Duration
	intervals int
	peers     bool // measure peers as well
}

func fullProgram() program {
	return program{
		spread: []int{64, 256}, crowd: 64, wide: 64, convoys: []int{50, 200}, growth: []int{2, 32, 512, 1000}, kills: 8, visits: 100, listed: 20_000,
		idle:   []idleSize{{1000, 6 * time.Second, 3, true}, {100_000, 15 * time.Second, 2, false}},
		stores: storeSizes{crowd: 64, waiters: []int{2, 200}, idle: idleSize{10_000, 15 * time.Second, 1, false}},
	}
}

// big adds the sizes that take minutes.
func (p program) big() program {
	p.idle = append(p.idle, idleSize{10_000, 15 * time.Second, 2, true}, idleSize{1_000_000, time.Minute, 2, false})
	return p
}

// scenarios returns all scenarios.
func scenarios(p program) []scenario {
	return append([]scenario{
		uncontended(), spreadOut(p.spread), hot(p.crowd), readers(p.crowd), readersAndWriter(), processes(), handOff(), convoys(p.convoys),
		growth(p.growth), kills(p.kills), killedWaiters(p.kills), visits(p.visits), quorums(), idle(p.idle), scripts(), histories(p.crowd), starts(p.listed),
		topologies(p.wide), topologiesAlone(), network(), networkHandOff(),
	}, storeScenarios(p.stores)...)
}

// uncontended is one caller that locks and unlocks a free resource.
func uncontended() scenario {
	return scenario{
		name: "uncontended", title: "one caller, a free resource", rounds: 3,
		columns: []metric{pairTime, longestPair, commands, reads, serverCPU, clientCPU, allocations},
		cases: []variant{{
			contenders: []string{
				"two bare EVALSHA", evalshaRequestCtx, "two bare EVALSHA, rueidis", "the same scripts, sent by hand", "SET NX PX + compare-and-delete",
				"holdfast", requestCtx, lingering, "redsync", "redislock, polls at 1 ms", "redislock on AutoPipeline", "rueidislock",
			},
			measure: crowdOf(crowdSpec{clients: 1, callers: 1, own: true, length: 0.3}),
		}},
	}
}

// spreadOut is many callers of one process, each with its own resource.
func spreadOut(sizes []int) scenario {
	sc := scenario{
		name: "spread", title: "callers of one process, each with a resource of its own",
		columns: slices.Concat([]metric{rate}, withRate),
	}
	for _, n := range sizes {
		sc.cases = append(sc.cases, variant{
			label: fmt.Sprintf("%d on %d", n, n),
			contenders: []string{
				"two bare EVALSHA", "two bare EVALSHA, AutoPipeline", "two bare EVALSHA, rueidis",
				"holdfast", requestCtx, "redsync", "redislock, polls at 1 ms", "redislock on AutoPipeline", "rueidislock",
			},
			measure: crowdOf(crowdSpec{clients: 1, callers: n, own: true, length: 1}),
		})
	}
	return sc
}

// contested returns more and the contenders of scenarios with waiters. The result of a
// peer that polls depends on its delay: with a long one the lock stays with its holder,
// which looks best at zero hold; with a short one a release is noticed early.
func contested(more ...string) []string {
	return append(more, "holdfast", "redsync", "redsync, polls at 1 ms", "redislock, polls at 1 ms", "rueidislock")
}

// atZeroHold adds a peer with a long delay without jitter.
func atZeroHold(more ...string) []string {
	return append(contested(more...), "redislock, polls at 50 ms")
}

// hot is the goroutines of one process on one resource.
func hot(callers int) scenario {
	return scenario{
		name: "hot", title: fmt.Sprintf("%d goroutines of one process, one resource", callers), rounds: 0.8,
		columns: slices.Concat([]metric{rate, handOffs}, withRate),
		cases: []variant{{
			contenders: atZeroHold("sync.Mutex", "BLPOP/LPUSH"),
			measure:    crowdOf(crowdSpec{clients: 1, callers: callers, length: 2}),
		}},
	}
}

// readers is the readers of one process on one resource. Those that share a lease never block, so their
// shares and waits are those of the Go scheduler.
func readers(callers int) scenario {
	return scenario{
		name: "readers", title: fmt.Sprintf("%d readers of one process, one resource, zero hold", callers), rounds: 0.8,
		columns: slices.Concat([]metric{rate}, withRate),
		cases: []variant{{
			contenders: []string{"sync.RWMutex, RLock", "two bare EVALSHA", reading, readingAlone},
			measure:    crowdOf(crowdSpec{clients: 1, callers: callers, readers: true, length: 1}),
		}},
	}
}

// readersAndWriter is readers of 8 processes who read for 1 ms, and a writer every 100 ms. Without pauses the readers use
// all of their CPU, and each of the 8 processes gets its share of it only now and then.
func readersAndWriter() scenario {
	sc := scenario{
		name: "readers-writer", title: "8 processes with 8 readers each, reads of 1 ms, a writer every 100 ms", rounds: 0.8,
		columns: slices.Concat([]metric{rate, writerP50, writerP99}, withRate),
	}
	for _, think := range []time.Duration{0, 20 * time.Millisecond} {
		label := "no pauses"
		if think > 0 {
			label = fmt.Sprintf("pauses of up to %v", think)
		}
		sc.cases = append(sc.cases, variant{
			label: label, contenders: []string{reading, readingAlone},
			measure: crowdOf(crowdSpec{
				clients: 8, callers: 8, readers: true, hold: time.Millisecond, think: think, writes: 100 * time.Millisecond,
				ramp: 100 * time.Millisecond, length: 4,
			}),
		})
	}
	return sc
}

// processes is 8 processes on one resource.
func processes() scenario {
	return scenario{
		name: "processes", title: "processes and their callers, one resource, zero hold", rounds: 0.8,
		columns: slices.Concat([]metric{handOffs, rate, worstProcess}, withRate),
		cases: []variant{
			{"8 × 8", atZeroHold("BLPOP/LPUSH"), crowdOf(crowdSpec{clients: 8, callers: 8, ramp: 100 * time.Millisecond, length: 2}), nil},
			{"8 × 1", atZeroHold("BLPOP/LPUSH", line, lingering), crowdOf(crowdSpec{clients: 8, callers: 1, ramp: 100 * time.Millisecond, length: 2}), nil},
			{"2 × 1", []string{"BLPOP/LPUSH", "holdfast", lingering}, crowdOf(crowdSpec{clients: 2, callers: 1, ramp: 100 * time.Millisecond, length: 2}), nil},
		},
	}
}

// handOff is 8 processes that work for 5 ms under the lock, then for up to 5 ms
// without it.
func handOff() scenario {
	return scenario{
		name: "hand-off", title: "8 processes, holds of 5 ms, then up to 5 ms of other work",
		columns: slices.Concat([]metric{gapP50, gapP99, inUse, rate}, withRate),
		cases: []variant{{
			contenders: contested("BLPOP/LPUSH", line),
			measure: crowdOf(crowdSpec{
				clients: 8, callers: 1, hold: 5 * time.Millisecond, think: 5 * time.Millisecond,
				ramp: 100 * time.Millisecond, length: 2,
			}),
		}},
	}
}

// convoys is many clients that already wait for the lock, each for one turn.
func convoys(sizes []int) scenario {
	sc := scenario{
		name: "convoy", title: "clients that wait for one resource and each hold it once, for 2 ms", rounds: 0.6,
		columns: []metric{drainPart, drainTime, commands, longestWait, serverCPU, clientCPU, gapP50},
	}
	for _, n := range sizes {
		sc.cases = append(sc.cases, variant{
			label: fmt.Sprint(n), contenders: contested("BLPOP/LPUSH"), measure: convoyOf(n, 2*time.Millisecond),
		})
	}
	return sc
}

// growth is a growing number of clients that wait for one resource.
func growth(sizes []int) scenario {
	sc := scenario{
		name: "growth", title: "clients that wait for one resource, zero hold", rounds: 0.6,
		columns: slices.Concat([]metric{handOffs, rate}, withRate),
	}
	for _, n := range sizes {
		sc.cases = append(sc.cases, variant{
			label:      fmt.Sprint(n),
			contenders: []string{"BLPOP/LPUSH", "holdfast", "redsync", "redislock, polls at 1 ms", "rueidislock"},
			measure:    crowdOf(crowdSpec{clients: n, callers: 1, ramp: 300*time.Millisecond + time.Duration(n)*1500*time.Microsecond, length: 1.5}),
		})
	}
	return sc
}

// kills is a holder that is killed while others wait.
func kills(resources int) scenario {
	return scenario{
		name: "kill", title: "the holder is killed; from its lease's end in the store to the next entry", rounds: 0.6,
		columns: []metric{lateP50, lateMax, lateMin},
		cases: []variant{
			{contenders: contested(), measure: killOf(resources)},
			{label: "while the lease lingers", contenders: []string{lingering}, measure: killUserOf(resources)},
		},
	}
}

// killedWaiters is a first waiter that is killed before the holder releases.
func killedWaiters(resources int) scenario {
	return scenario{
		name: "kill-waiter", title: "the first waiter is killed, then the holder releases; from the release to the next entry", rounds: 0.6,
		columns: []metric{lateP50, lateMax, lateMin},
		cases:   []variant{{contenders: contested(), measure: killFirstWaiterOf(resources)}},
	}
}

// visits is a process that locks resources which another has just released, and may have kept.
func visits(resources int) scenario {
	return scenario{
		name: "visit", title: "the first Lock of a process on a resource that another has just used", rounds: 0.6,
		columns: []metric{waitP50, waitP99, longestWait},
		cases:   []variant{{contenders: []string{line, keptLine, "holdfast", lingering}, measure: visitOf(resources)}},
	}
}

// idle is leases that are held for a long time.
func idle(sizes []idleSize) scenario {
	sc := scenario{
		name: "idle", title: "held leases, renewed every third of their TTL", rounds: 0.01,
		columns: []metric{clientShare, serverShare, heapEach, stackEach, goroutinesEach, commandsEach, readsEach, allocsEach},
	}
	for _, k := range sizes {
		v := variant{label: k.label(), contenders: []string{"holdfast"}, measure: idleOf(k)}
		if k.peers {
			v.contenders = append(v.contenders, "redsync", "redislock, polls at 1 ms", "rueidislock")
		}
		sc.cases = append(sc.cases, v)
	}
	return sc
}

func (k idleSize) label() string {
	return fmt.Sprintf("%s, TTL %v s", thousands(k.leases), k.ttl.Seconds())
}

// thousands formats a number with commas.
func thousands(number int) string {
	n := fmt.Sprint(number)
	for i := len(n) - 3; i > 0; i -= 3 {
		n = n[:i] + "," + n[i:]
	}
	return n
}

// quorums is one caller on five independent nodes.
func quorums() scenario {
	names := []string{"holdfast, 5 nodes", "redsync, 5 pools, fail-fast", "redsync, 5 pools"}
	slow := []string{"redsync, 5 pools"}
	return scenario{
		name: "quorum", title: "one caller, a free resource on five nodes", rounds: 0.6,
		columns: []metric{pairTime, longestPair, goroutines, gained, clientCPU, allocations},
		cases: []variant{
			{"all up", append([]string{"two bare EVALSHA, 5 nodes"}, names...), quorumOf(noFault()), nil},
			{"2 dead", names, quorumOf(killNodes()), slow},
			{"2 hung", names, quorumOf(pauseNodes()), slow},
		},
	}
}

// scripts is the server's part of a pair, without the network.
func scripts() scenario {
	return scenario{
		name: "scripts", title: "CPU of the server while pairs come in pipelines",
		columns: []metric{serverCPU, commands},
		cases: []variant{
			{"", []string{"SET NX PX + compare-and-delete", "two bare EVALSHA", "the same scripts, sent by hand"}, measurePipelined, nil},
			{"shared", []string{"the same scripts, sent by hand", "a reader", "a reader beside 1000", "a semaphore's unit", "a semaphore's unit beside 1000"}, measurePipelined, nil},
			{"renewals", []string{bareRenewing, ownRenewals}, measurePipelined, nil},
		},
	}
}
