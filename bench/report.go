package main

import (
	"runtime"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// report is the result of a worker for its window.
type report struct {
	Usage   usage
	Turns   []int // by caller
	Passed  int   // turns that follow another caller's
	Longest time.Duration
	Held    time.Duration
	Waits   *hdrhistogram.Snapshot
	Pairs   *hdrhistogram.Snapshot `json:",omitempty"`
	Gaps    *hdrhistogram.Snapshot `json:",omitempty"`

	Writes *hdrhistogram.Snapshot `json:",omitempty"` // what the writer waited for

	Entered []time.Time `json:",omitempty"` // of a lockSet

	HeapEach, StackEach, Goroutines float64 // for each idle lease
	Lost                            int     // idle leases
}

// reportOf sums the results of callers.
func reportOf(callers []*caller, used usage) *report {
	r := &report{Usage: used}
	var waits, pairs, gaps *hdrhistogram.Histogram
	for _, c := range callers {
		r.Turns = append(r.Turns, c.turns)
		r.Passed += c.passed
		r.Longest = max(r.Longest, c.longest)
		r.Held += c.held
		waits, pairs, gaps = merged(waits, c.waits), merged(pairs, c.pairs), merged(gaps, c.gaps)
	}
	r.Waits, r.Pairs, r.Gaps = exported(waits), exported(pairs), exported(gaps)
	return r
}

// merged adds b to a, either of which may be nil.
func merged(a, b *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	if a == nil {
		return b
	}
	if b != nil {
		a.Merge(b)
	}
	return a
}

func exported(h *hdrhistogram.Histogram) *hdrhistogram.Snapshot {
	if h == nil {
		return nil
	}
	return h.Export()
}

func imported(s *hdrhistogram.Snapshot) *hdrhistogram.Histogram {
	if s == nil {
		return nil
	}
	return hdrhistogram.Import(s)
}

// usage is the resources used by a process, since its start or within a time.
type usage struct {
	CPU        time.Duration // user and system
	Allocs     uint64        // objects
	Goroutines int           // now
	Gained     int           // goroutines, in the second half of a slice
}

func usageNow() usage {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru) // fails on bad arguments only
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return usage{
		CPU:        time.Duration(ru.Utime.Nano() + ru.Stime.Nano()),
		Allocs:     mem.Mallocs,
		Goroutines: runtime.NumGoroutine(),
	}
}

func (u usage) minus(before usage) usage {
	return usage{CPU: u.CPU - before.CPU, Allocs: u.Allocs - before.Allocs, Goroutines: u.Goroutines}
}
