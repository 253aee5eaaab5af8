package main

import (
	"fmt"
	"slices"
)

// onTopologies returns a floor, Holdfast on one server, on clusters and on quorums,
// and a peer on quorums.
func onTopologies() []string {
	return []string{
		"two bare EVALSHA", "holdfast",
		"holdfast, cluster of 1", "holdfast, cluster of 2", "holdfast, cluster of 3",
		"holdfast, 1 node", "holdfast, 3 nodes", "holdfast, 5 nodes",
		"redsync, 3 pools, fail-fast", "redsync, 5 pools, fail-fast",
	}
}

// topologies is many callers of one process, each with its own resources, which are
// spread over all masters.
func topologies(callers int) scenario {
	const each = 4
	return scenario{
		name:    "topologies",
		title:   fmt.Sprintf("%d callers of one process, %d resources, on several servers", callers, each*callers),
		columns: slices.Concat([]metric{rate}, withRate),
		cases: []variant{{
			contenders: onTopologies(),
			measure:    crowdOf(crowdSpec{clients: 1, callers: callers, own: true, each: each, length: 1}),
		}},
	}
}

// topologiesAlone is one caller on each topology.
func topologiesAlone() scenario {
	return scenario{
		name: "topologies-alone", title: "one caller, a free resource, on several servers",
		columns: []metric{pairTime, pairP99, longestPair, commands, serverCPU, clientCPU, allocations},
		cases: []variant{{
			contenders: onTopologies(),
			measure:    crowdOf(crowdSpec{clients: 1, callers: 1, own: true, each: 4, length: 0.5}),
		}},
	}
}
