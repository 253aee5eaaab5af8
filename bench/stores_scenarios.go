package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// storeSizes are the sizes of the scenarios of every store.
type storeSizes struct {
	crowd   int   // goroutines on one resource
	waiters []int // clients
	idle    idleSize
}

func storeNames() (all []string) {
	for _, st := range stores() {
		all = append(all, st.name)
	}
	return all
}

// storeContenders returns the contenders of all stores.
func storeContenders() (all []contender) {
	for _, st := range stores() {
		all = append(all, st.contenders()...)
	}
	return all
}

// storeColumns follow the first ones of a rate.
var storeColumns = []metric{worstCaller, longestWait, waitP50, writes, serverCPU, clientCPU}

// storeScenarios measures the same work on every store.
func storeScenarios(size storeSizes) []scenario {
	pair := scenario{
		name: "stores-pair", title: "one caller, a free resource",
		columns: []metric{pairTime, pairP99, longestPair, writes, serverCPU, clientCPU, allocations},
	}
	crowd := scenario{
		name: "stores-crowd", title: fmt.Sprintf("%d goroutines of one process, one resource", size.crowd), rounds: 0.6,
		columns: slices.Concat([]metric{rate, handOffs}, storeColumns),
	}
	apart := scenario{
		name: "stores-processes", title: "8 processes, one resource, zero hold", rounds: 0.6,
		columns: slices.Concat([]metric{handOffs, rate}, storeColumns),
	}
	waiters := scenario{
		name: "stores-waiters", title: "clients that wait for one resource, zero hold", rounds: 0.4,
		columns: slices.Concat([]metric{handOffs, rate}, storeColumns),
	}
	idle := scenario{
		name: "stores-idle", title: fmt.Sprintf("leases that one client holds, %s, renewed every third of it", size.idle.label()), rounds: 0.01,
		columns: []metric{writeRate, serverShare, clientShare, heapEach, goroutinesEach, lostLeases},
	}
	for _, st := range stores() {
		peers := names(st.peers)
		add := func(to *scenario, label string, who []string, m measure) {
			to.cases = append(to.cases, variant{label: label, contenders: who, measure: m})
		}
		alone := slices.Concat([]string{st.twoCommits(), st.ours()}, names(st.more), peers)
		if st.disk {
			alone = append(alone, twoSyncs)
		}
		add(&pair, st.name, alone, crowdOf(crowdSpec{clients: 1, callers: 1, own: true, length: 1}))
		add(&crowd, st.name, append([]string{st.ours()}, peers...), crowdOf(crowdSpec{clients: 1, callers: size.crowd, length: 2}))
		add(&apart, st.name, append([]string{st.passing(), st.ours()}, peers...),
			crowdOf(crowdSpec{clients: 8, callers: 1, ramp: 200 * time.Millisecond, length: 2}))
		for _, n := range size.waiters {
			ramp := 500*time.Millisecond + time.Duration(n)*10*time.Millisecond
			add(&waiters, waitersLabel(st, n), []string{st.passing(), st.ours()}, crowdOf(crowdSpec{clients: n, callers: 1, ramp: ramp, length: 3}))
		}
		add(&idle, st.name, []string{st.ours()}, idleOf(size.idle))
	}
	return []scenario{pair, crowd, apart, waiters, idle}
}

// ofStores reports whether a scenario is measured on every store.
func ofStores(scenario string) bool { return strings.HasPrefix(scenario, "stores-") }

func waitersLabel(st store, n int) string { return fmt.Sprintf("%s, %d", st.name, n) }

// storeBars returns the bars of all stores but Redis, which has scenarios of its own.
func storeBars() (all []bar) {
	for _, st := range stores() {
		if len(st.peers) == 0 {
			continue
		}
		if st.pair > 0 {
			beside := st.beside
			if beside == "" {
				beside = st.twoCommits()
			}
			all = append(all, bar{"stores-pair", st.name, st.ours(), pairTime, against{row: beside}, atMost, st.pair})
		}
		all = append(all,
			bar{"stores-crowd", st.name, st.ours(), rate, against{bestPeer: true}, atLeast, 50},
			bar{"stores-processes", st.name, st.ours(), handOffs, against{row: st.passing()}, atLeast, 0.7},
			bar{"stores-waiters", waitersLabel(st, 200), st.ours(), handOffs, against{label: waitersLabel(st, 2)}, atLeast, 0.67},
		)
	}
	return all
}
