package main

import "slices"

// metric is the name of a figure with its unit, which is also its column heading.
type metric string

// The metrics. A rate is always shown with worstCaller and longestWait: a lock looks
// fast if a caller can take it again right after its release.
const (
	rate         metric = "turns/s"
	handOffs     metric = "hand-offs/s"  // turns that follow another caller's
	worstCaller  metric = "worst caller" // as a part of a fair share
	worstProcess metric = "worst process"
	longestWait  metric = "longest wait ms"
	waitP50      metric = "wait p50 ms"
	waitP99      metric = "wait p99 ms"
	writerP50    metric = "writer's wait p50 ms"
	writerP99    metric = "writer's wait p99 ms"
	pairTime     metric = "µs a pair"
	pairP99      metric = "pair p99 µs"
	commands     metric = "commands/turn"
	reads        metric = "server reads/turn" // reads from a socket: a pipeline is one
	writes       metric = "writes/turn"       // transactions that changed something
	serverCPU    metric = "server µs/turn"
	clientCPU    metric = "client µs/turn"
	allocations  metric = "allocs/turn"
	overlaps     metric = "overlaps" // entries while another was inside
	longestPair  metric = "longest pair ms"
	goroutines   metric = "goroutines"
	gained       metric = "goroutines gained" // in the second half of the slice
	gapP50       metric = "gap p50 µs"        // from the release to the next entry
	gapP99       metric = "gap p99 µs"
	inUse        metric = "in use" // part of the time for which the lock is held

	drainTime metric = "drain ms"
	drainPart metric = "drain / ideal"

	lateP50 metric = "entry p50 ms" // after the end of the dead holder's lease
	lateMax metric = "latest ms"
	lateMin metric = "earliest ms"

	startP50 metric = "start p50 ms"
	startMin metric = "fastest start ms"
	startCPU metric = "CPU ms/start"

	heapEach       metric = "heap B/lease"
	stackEach      metric = "stack B/lease"
	goroutinesEach metric = "goroutines/lease"
	commandsEach   metric = "commands/lease and interval"
	readsEach      metric = "server reads/lease and interval"
	allocsEach     metric = "allocs/lease and interval"
	writeRate      metric = "writes/s"
	lostLeases     metric = "leases lost"
	clientShare    metric = "client core %"
	serverShare    metric = "server core %"
)

// figures are the results of one contender in one round.
type figures map[metric]float64

// smallerIsBetter reports whether the smaller of two figures is the better one.
func (m metric) smallerIsBetter() bool {
	return !slices.Contains([]metric{rate, handOffs, worstCaller, worstProcess, inUse}, m)
}

func median(f []float64) float64 {
	if len(f) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(f))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
