package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

var errTwoHolders = errors.New("two holders at once")

// crowdSpec describes a crowd: the number of callers and their behaviour.
type crowdSpec struct {
	clients     int           // spread over at most 8 processes
	callers     int           // goroutines of each client
	own         bool          // each caller has its own resource
	each        int           // or this many resources, used in turn
	readers     bool          // the callers read one resource, and hold it together
	writes      time.Duration // a writer comes each time that so long has passed; 0: none
	hold, think time.Duration
	ramp        time.Duration
	length      float64       // of a slice, in units of the flag -slice
	link        time.Duration // the round trip to the server; 0: it is on this machine
}

// crowdOf measures a crowd.
func crowdOf(g crowdSpec) measure {
	return func(ctx context.Context, s *testbed, c contender) (figures, error) {
		at, err := s.site(c.on)
		if err != nil {
			return nil, err
		}
		resource, addrs := s.newResource("crowd"), at.addrs
		if err := s.provide(ctx, c, addrs, resource); err != nil {
			return nil, err
		}
		addrs, stop, err := far(addrs, g.link)
		if err != nil {
			return nil, err
		}
		defer stop()
		jobs := splitJob(job{
			Kind: "crowd", Contender: c.name, Addrs: addrs, Resource: resource,
			Callers: g.callers, Own: g.own, Each: g.each, Readers: g.readers, Writes: g.writes, Hold: g.hold, Think: g.think, TTL: s.ttl, Pool: s.pool,
		}, g.clients)
		s.workers.board.reset()
		if len(jobs) == 1 { // eight take too long to start, and their age matters less
			s.workers.restart(0)
		}
		if err := s.workers.prepare(0, jobs); err != nil {
			return nil, err
		}
		ramp := max(g.ramp, 50*time.Millisecond)
		w := windowIn(ramp, time.Duration(g.length*float64(s.slice)))
		if err := s.workers.open(0, len(jobs), w); err != nil {
			return nil, err
		}
		used, err := at.watch(ctx, w, c)
		if err != nil {
			return nil, err
		}
		reports, err := s.workers.reports(0, len(jobs))
		if err != nil {
			return nil, err
		}
		f := sum(reports, w.Until.Sub(w.From), used)
		f[overlaps] = float64(s.workers.board.overlaps.Load())
		if f[overlaps] > 0 {
			return f, fmt.Errorf("%s: %w, %v times", c.name, errTwoHolders, f[overlaps])
		}
		return f, nil
	}
}

// sum returns the figures of the reports of all workers and the server.
func sum(reports []*report, length time.Duration, used serverUsed) figures {
	f := figures{}
	var waits, pairs, gaps, written *hdrhistogram.Histogram
	total, passed, callers, least := 0, 0, 0, -1
	var u usage
	var held time.Duration
	share := []int{}
	for _, r := range reports {
		mine := 0
		for _, n := range r.Turns {
			mine += n
			if least < 0 || n < least {
				least = n
			}
		}
		total += mine
		callers += len(r.Turns)
		share = append(share, mine)
		passed += r.Passed
		held += r.Held
		u.CPU += r.Usage.CPU
		u.Allocs += r.Usage.Allocs
		u.Goroutines += r.Usage.Goroutines
		u.Gained += r.Usage.Gained
		f[longestWait] = max(f[longestWait], milliseconds(r.Longest))
		written = merged(written, imported(r.Writes))
		waits, pairs, gaps = merged(waits, imported(r.Waits)), merged(pairs, imported(r.Pairs)), merged(gaps, imported(r.Gaps))
	}
	f[rate] = float64(total) / length.Seconds()
	f[handOffs] = float64(passed) / length.Seconds()
	f[waitP50] = float64(waits.ValueAtQuantile(50)) / 1e6
	f[goroutines] = float64(u.Goroutines)
	f[gained] = float64(u.Gained)
	if total > 0 {
		turns := float64(total)
		f[worstCaller] = float64(least) * float64(callers) / turns
		f[worstProcess] = float64(leastOf(share)) * float64(len(share)) / turns
		f[commands] = float64(used.commands) / turns
		f[reads] = float64(used.reads) / turns
		f[writes] = float64(used.writes) / turns
		f[serverCPU] = microseconds(used.cpu) / turns
		f[clientCPU] = microseconds(u.CPU) / turns
		f[allocations] = float64(u.Allocs) / turns
	}
	if written != nil {
		f[writerP50] = float64(written.ValueAtQuantile(50)) / 1e6
		f[writerP99] = float64(written.ValueAtQuantile(99)) / 1e6
	}
	if pairs != nil {
		f[pairTime] = float64(pairs.ValueAtQuantile(50)) / 1e3
		f[pairP99] = float64(pairs.ValueAtQuantile(99)) / 1e3
		f[longestPair] = float64(pairs.Max()) / 1e6
	}
	if gaps != nil {
		f[gapP50] = float64(gaps.ValueAtQuantile(50)) / 1e3
		f[gapP99] = float64(gaps.ValueAtQuantile(99)) / 1e3
		f[inUse] = held.Seconds() / length.Seconds()
	}
	return f
}

func leastOf(n []int) int {
	least := n[0]
	for _, x := range n {
		least = min(least, x)
	}
	return least
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
