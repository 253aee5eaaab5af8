package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// recording is Holdfast with WithHistory.
const recording = "holdfast, WithHistory"

// holdfastRecording is a mutex of a client that records a history.
func holdfastRecording() contender {
	c := holdfastContender(recording)
	c.sends = append(slices.Clone(c.sends), "xadd")
	c.open = func(s settings) (client, error) { return openHoldfast(s, nil, holdfast.WithHistory(0)) }
	return c
}

// histories is pairs with and without a history. A slice is much longer than the 200 ms for which events are gathered, and
// begins when some have been written.
func histories(callers int) scenario {
	sc := scenario{
		name: "history", title: "pairs, each with a resource of its own, with and without a history",
		columns: []metric{serverCPU, commands, clientCPU, allocations},
	}
	for _, n := range []int{1, callers} {
		sc.cases = append(sc.cases, variant{
			label: fmt.Sprintf("%d on %d", n, n), contenders: []string{"holdfast", recording},
			measure: crowdOf(crowdSpec{clients: 1, callers: n, own: true, ramp: 500 * time.Millisecond, length: 4}),
		})
	}
	return sc
}
