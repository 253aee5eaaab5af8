package main

// bars lists what Holdfast must show.
func bars() []bar {
	two, best := against{row: "two bare EVALSHA"}, against{bestPeer: true}
	list := against{row: "BLPOP/LPUSH"}
	all := []bar{
		{"uncontended", "", "holdfast", pairTime, two, atMost, 1.05},
		{"uncontended", "", "holdfast", pairTime, best, atMost, 1},
		{"uncontended", "", "holdfast", clientCPU, two, atMost, 1.15},
		{"uncontended", "", "holdfast", allocations, against{minus: "two bare EVALSHA"}, atMost, 12},
		{"uncontended", "", "holdfast", commands, against{}, atMost, 2},
		{"hot", "", "holdfast", rate, best, atLeast, 25},
		{"hot", "", "holdfast", worstCaller, against{}, atLeast, 0.95},
		{"hot", "", "holdfast", longestWait, best, atMost, 0.02},
		{"processes", "8 × 8", "holdfast", rate, best, atLeast, 20},
		{"processes", "8 × 8", "holdfast", worstCaller, against{}, atLeast, 0.9},
		{"processes", "8 × 8", "holdfast", worstProcess, against{}, atLeast, 0.9},
		{"processes", "8 × 1", "holdfast", handOffs, list, atLeast, 0.85},
		{"processes", "8 × 1", "holdfast", handOffs, best, atLeast, 3},
		{"processes", "8 × 1", "holdfast", worstCaller, against{}, atLeast, 0.95},
		{"hand-off", "", "holdfast", gapP50, list, atMost, 1.3},
		{"hand-off", "", "holdfast", gapP99, list, atMost, 1.3},
		{"hand-off", "", "holdfast", inUse, list, atLeast, 0.99},
	}
	for _, label := range []string{"64 on 64", "256 on 256"} {
		all = append(all,
			bar{"spread", label, "holdfast", rate, against{row: "redsync"}, atLeast, 2},
			bar{"spread", label, "holdfast", rate, against{row: "redislock, polls at 1 ms"}, atLeast, 2},
			bar{"spread", label, "holdfast", rate, against{row: "rueidislock"}, atLeast, 1.05},
			bar{"spread", label, "holdfast", rate, against{row: "redislock on AutoPipeline"}, atLeast, 1},
		)
	}
	return all
}
