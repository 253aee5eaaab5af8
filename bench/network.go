package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// roundTrips are those of the links to the server: between two zones of a data centre, and between two data centres.
var roundTrips = []time.Duration{500 * time.Microsecond, 5 * time.Millisecond}

// network is one caller whose server is far away.
func network() scenario {
	sc := scenario{
		name: "network", title: "one caller, a free resource, a link with this round trip",
		columns: []metric{pairTime, longestPair, commands, clientCPU},
	}
	for _, trip := range roundTrips {
		sc.cases = append(sc.cases, variant{
			label: fmt.Sprint(trip),
			contenders: []string{
				"two bare EVALSHA", "holdfast", requestCtx, lingering, "redsync", "redislock, polls at 1 ms", "rueidislock",
			},
			measure: crowdOf(crowdSpec{clients: 1, callers: 1, own: true, length: 1, link: trip}),
		})
	}
	return sc
}

// networkHandOff is 8 processes on one resource, whose server is far away.
func networkHandOff() scenario {
	sc := scenario{
		name: "network-hand-off", title: "8 processes, holds of 5 ms, then up to 5 ms of other work, a link with this round trip",
		columns: slices.Concat([]metric{gapP50, gapP99, inUse, rate}, withRate),
	}
	for _, trip := range roundTrips {
		sc.cases = append(sc.cases, variant{
			label: fmt.Sprint(trip), contenders: contested("BLPOP/LPUSH", line),
			measure: crowdOf(crowdSpec{
				clients: 8, callers: 1, hold: 5 * time.Millisecond, think: 5 * time.Millisecond,
				ramp: 200 * time.Millisecond, length: 4, link: trip,
			}),
		})
	}
	return sc
}

// networkBars are those of a server that is far away: as many round trips as the floor has.
func networkBars() (all []bar) {
	two, list := against{row: "two bare EVALSHA"}, against{row: "BLPOP/LPUSH"}
	for _, trip := range roundTrips {
		label := trip.String()
		all = append(all,
			bar{"network", label, requestCtx, pairTime, two, atMost, 1.05},
			bar{"network", label, lingering, pairTime, against{bestPeer: true}, atMost, 1.0 / 80},
			bar{"network", label, lingering, commands, against{}, atMost, 0.01},
			bar{"network-hand-off", label, "holdfast", gapP50, list, atMost, 1.05},
			bar{"network-hand-off", label, "holdfast", gapP99, list, atMost, 1.05},
		)
	}
	return all
}

// far returns addresses of the same servers that are a link with a round trip away, until stop. 0: those that were given.
func far(addrs []string, trip time.Duration) (through []string, stop func(), err error) {
	var all []*redistest.Proxy
	stop = func() {
		for _, p := range all {
			p.Stop()
		}
	}
	if trip == 0 {
		return addrs, stop, nil
	}
	for _, addr := range addrs {
		p, err := redistest.LaunchProxy(addr)
		if err != nil {
			stop()
			return nil, nil, err
		}
		p.Delay(trip / 2)
		all, through = append(all, p), append(through, p.Addr())
	}
	return through, stop, nil
}
