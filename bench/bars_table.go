package main

// bars returns all bars.
func bars() []bar {
	two, best := against{row: "two bare EVALSHA"}, against{bestPeer: true}
	list := against{row: "BLPOP/LPUSH"}
	all := append(keptBars(), []bar{
		{"uncontended", "", "holdfast", pairTime, two, atMost, 1.05},
		{"uncontended", "", "holdfast", pairTime, best, atMost, 1},
		{"uncontended", "", requestCtx, pairTime, against{row: evalshaRequestCtx}, atMost, 1.1},
		{"uncontended", "", requestCtx, pairTime, best, atMost, 1.03},
		{"uncontended", "", "holdfast", clientCPU, two, atMost, 1.15},
		{"uncontended", "", "holdfast", allocations, against{minus: "two bare EVALSHA"}, atMost, 12},
		{"uncontended", "", "holdfast", commands, against{}, atMost, 2.01}, // a pair may span the end of a slice
		{"scripts", "", "the same scripts, sent by hand", serverCPU, against{row: "SET NX PX + compare-and-delete"}, atMost, 3.5},
		{"hot", "", "holdfast", rate, best, atLeast, 25},
		{"hot", "", "holdfast", worstCaller, against{}, atLeast, 0.95},
		{"hot", "", "holdfast", longestWait, best, atMost, 0.02},
		{"processes", "8 × 8", "holdfast", rate, best, atLeast, 20},
		{"processes", "8 × 8", "holdfast", worstCaller, against{}, atLeast, 0.9},
		{"kill-waiter", "", "holdfast", lateP50, against{}, atMost, 10},
		{"processes", "8 × 8", "holdfast", worstProcess, against{}, atLeast, 0.9},
		{"processes", "8 × 1", "holdfast", handOffs, list, atLeast, 0.85},
		{"processes", "8 × 1", "holdfast", handOffs, best, atLeast, 3},
		{"processes", "8 × 1", "holdfast", worstCaller, against{}, atLeast, 0.95},
		{"hand-off", "", "holdfast", gapP50, list, atMost, 1.3},
		{"hand-off", "", "holdfast", gapP99, list, atMost, 1.3},
		{"hand-off", "", "holdfast", inUse, list, atLeast, 0.99},
	}...)
	all = append(all,
		bar{"convoy", "50", "holdfast", drainPart, against{}, atMost, 1.1},
		bar{"convoy", "200", "holdfast", drainPart, against{}, atMost, 1.1},
		bar{"convoy", "50", "holdfast", commands, against{}, atMost, 3},
		bar{"convoy", "200", "holdfast", commands, against{}, atMost, 3},
		bar{"convoy", "200", "holdfast", commands, against{label: "50"}, atMost, 1.1},
		bar{"kill", "", "holdfast", lateP50, against{}, atMost, 10},
		bar{"kill", "", "holdfast", lateMin, against{}, atLeast, 0},
		bar{"kill", "while the lease lingers", lingering, lateP50, against{}, atMost, 10},
		bar{"kill", "while the lease lingers", lingering, lateMin, against{}, atLeast, 0},
		bar{"start", "version", "holdfast version", startP50, against{}, atMost, 4},
		bar{"start", "run", "holdfast run x -- true", startP50, against{}, atMost, 12},
		bar{"start", "ls of 20,000", "holdfast ls", startP50, against{}, atMost, 1000},
		bar{"idle", "100,000, TTL 15 s", "holdfast", clientShare, against{}, atMost, 5},
		bar{"idle", "100,000, TTL 15 s", "holdfast", serverShare, against{}, atMost, 7},
		bar{"idle", "100,000, TTL 15 s", "holdfast", allocsEach, against{}, atMost, 0.5},
	)
	for _, name := range []string{"a reader", "a reader beside 1000", "a semaphore's unit", "a semaphore's unit beside 1000"} {
		all = append(all, bar{"scripts", "shared", name, serverCPU, against{row: "the same scripts, sent by hand"}, atMost, 1.5})
	}
	all = append(all, bar{"history", "1 on 1", recording, serverCPU, against{row: "holdfast"}, atMost, 1.05})
	all = append(all, bar{"scripts", "renewals", ownRenewals, serverCPU, against{row: bareRenewing}, atMost, 1.3})
	all = append(all, bar{"quorum", "all up", "holdfast, 5 nodes", pairTime, against{row: "redsync, 5 pools, fail-fast"}, atMost, 0.9})
	for _, label := range []string{"2 dead", "2 hung"} {
		all = append(all,
			bar{"quorum", label, "holdfast, 5 nodes", pairTime, against{label: "all up"}, atMost, 1.5},
			bar{"quorum", label, "holdfast, 5 nodes", longestPair, against{label: "all up"}, atMost, 1.5},
			bar{"quorum", label, "holdfast, 5 nodes", gained, against{}, atMost, 5}, // calls do not pile up
		)
	}
	for _, label := range []string{"1,000, TTL 6 s", "100,000, TTL 15 s"} {
		all = append(all,
			bar{"idle", label, "holdfast", goroutinesEach, against{}, atMost, 0.01},
			bar{"idle", label, "holdfast", heapEach, against{}, atMost, 600},
			bar{"idle", label, "holdfast", commandsEach, against{}, atMost, 1.05},
		)
	}
	for _, label := range []string{"512", "1000"} {
		all = append(all,
			bar{"growth", label, "holdfast", handOffs, against{label: "2"}, atLeast, 0.77},
			bar{"growth", label, "holdfast", serverCPU, against{label: "2"}, atMost, 1.3},
		)
	}
	for _, label := range []string{"64 on 64", "256 on 256"} {
		all = append(all,
			bar{"spread", label, "holdfast", rate, against{row: "redsync"}, atLeast, 2},
			bar{"spread", label, "holdfast", rate, against{row: "redislock, polls at 1 ms"}, atLeast, 2},
			bar{"spread", label, "holdfast", rate, against{row: "rueidislock"}, atLeast, 1.05},
			bar{"spread", label, "holdfast", rate, against{row: "redislock on AutoPipeline"}, atLeast, 1},
		)
	}
	return append(append(all, networkBars()...), storeBars()...)
}

// keptBars are those of leases that a client keeps, or that its readers share.
func keptBars() []bar {
	best, holdfast := against{bestPeer: true}, against{row: "holdfast"}
	return []bar{
		{"readers", "", reading, rate, against{row: readingAlone}, atLeast, 40},
		{"readers-writer", "no pauses", reading, writerP99, against{}, atMost, 6}, // 5 ms beyond the longest read
		{"readers-writer", "pauses of up to 20ms", reading, writerP99, against{}, atMost, 6},
		{"uncontended", "", lingering, pairTime, best, atMost, 1.0 / 80},
		{"uncontended", "", lingering, commands, against{}, atMost, 0.01},
		{"uncontended", "", lingering, allocations, against{}, atMost, 2},
		{"processes", "8 × 1", lingering, handOffs, holdfast, atLeast, 0.95}, // it turns itself off
		{"processes", "2 × 1", lingering, handOffs, holdfast, atLeast, 0.95},
		{"visit", "", lingering, waitP50, holdfast, atMost, 2.5},
		{"visit", "", lingering, waitP99, against{}, atMost, 10},
	}
}
