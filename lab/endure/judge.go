package endure

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Series is one quantity over the samples of a run.
type Series struct {
	Name   string
	Values []float64
	Limit  Limit
}

// Limit is how much a quantity may be higher at the end of a run than at its beginning: the sum of both.
type Limit struct {
	Abs float64 // in the unit of the quantity
	Rel float64 // of the median of the first quarter
}

// Verdict is what Judge found in a series.
type Verdict struct {
	Name        string
	First, Last float64 // medians of the first and the last quarter
	Allowance   float64
	Rise        float64 // by the slope, over all samples
	Order       float64 // Kendall's tau: 1 if each sample is higher than each one before, 0 without a trend
	Why         string  // it is not flat; empty: it is
}

const (
	// leastSamples is how many samples a judgement takes.
	leastSamples = 6
	// steady is the order from which a rise counts as steady. Of 30 random samples none has it in a million.
	steady = 0.75
	// steadyShare is the share of the allowance by which a steady rise may be.
	steadyShare = 0.25
)

// Judge decides whether a series is flat. It is if
//
//  1. the median of its last quarter is above the median of its first quarter by no more than the allowance, which
//     is Limit.Abs + Limit.Rel × the median of the first quarter; and
//  2. it does not rise steadily: Kendall's tau of the samples over time is below 0.75, or the rise by the slope of
//     Theil and Sen (the median of the slopes between any two samples) over the whole series is no more than a
//     quarter of the allowance.
//
// The first finds a leak that is large by the end of the run. The second finds a smaller one that is regular, such
// as one goroutine for each failover, before it is large. Only growth counts: a fall is no leak. A series of fewer
// than six samples is not flat, since it shows nothing.
func Judge(s Series) Verdict {
	n := len(s.Values)
	v := Verdict{Name: s.Name}
	if n < leastSamples {
		v.Why = fmt.Sprintf("%d samples show nothing; it takes %d", n, leastSamples)
		return v
	}
	quarter := (n + 3) / 4
	v.First, v.Last = median(s.Values[:quarter]), median(s.Values[n-quarter:])
	v.Allowance = s.Limit.Abs + s.Limit.Rel*v.First
	var slopes []float64
	var order int
	for i := range n {
		for j := i + 1; j < n; j++ {
			d := s.Values[j] - s.Values[i]
			slopes = append(slopes, d/float64(j-i))
			order += sign(d)
		}
	}
	v.Rise = median(slopes) * float64(n-1)
	v.Order = float64(order) / float64(len(slopes))
	switch {
	case v.Last-v.First > v.Allowance:
		v.Why = fmt.Sprintf("it grew by %s, more than %s", figure(v.Last-v.First), figure(v.Allowance))
	case v.Order >= steady && v.Rise > steadyShare*v.Allowance:
		v.Why = fmt.Sprintf("it rises steadily, by %s (tau %.2f), more than %s", figure(v.Rise), v.Order, figure(steadyShare*v.Allowance))
	}
	return v
}

// String returns one line of a report.
func (v Verdict) String() string {
	how := "flat"
	if v.Why != "" {
		how = "NOT FLAT: " + v.Why
	}
	return fmt.Sprintf("%-26s first %10s  last %10s  allowed +%-9s rise %9s  tau %5.2f  %s",
		v.Name, figure(v.First), figure(v.Last), figure(v.Allowance), figure(v.Rise), v.Order, how)
}

// median of values that need not be sorted.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func sign(d float64) int {
	switch {
	case d > 0:
		return 1
	case d < 0:
		return -1
	}
	return 0
}

// figure prints a number with five digits at most, and no trailing zeros.
func figure(x float64) string {
	if math.Abs(x) >= 1e6 {
		return fmt.Sprintf("%.2fM", x/1e6)
	}
	text := fmt.Sprintf("%.1f", x)
	return strings.TrimSuffix(text, ".0")
}

const megabyte = 1 << 20

// pooled is how many connections the pools of a process may keep after a burst, and close when they are old: the caller's
// two, that of the engine's own connections, and that to a Sentinel; and those of each node of a quorum.
func pooled(store string) float64 {
	const own = 8 // of engine/goredis
	if store == onQuorum {
		return 3 * (2*poolSize + own)
	}
	return 3*poolSize + own
}

// seriesOf makes the series of the samples of a run. The keys are left out if it is not longer than the life of a name, so
// that their number cannot be flat.
func seriesOf(samples []Sample, p Plan) []Series {
	pick := func(name string, limit Limit, value func(Sample) float64) Series {
		s := Series{Name: name, Limit: limit}
		for _, x := range samples {
			s.Values = append(s.Values, value(x))
		}
		return s
	}
	all := []Series{
		// At rest the number is that of the client's and go-redis's own, which do not vary by more than this.
		pick("goroutines", Limit{Abs: 4}, func(s Sample) float64 { return float64(s.Goroutines) }),
		pick("descriptors", Limit{Abs: pooled(p.Store)}, func(s Sample) float64 { return float64(s.Descriptors) }),
		pick("sockets", Limit{Abs: pooled(p.Store)}, func(s Sample) float64 { return float64(s.Sockets) }),
		pick("connections at the store", Limit{Abs: pooled(p.Store)}, func(s Sample) float64 { return float64(s.Store.Connections) }),
		pick("leases", Limit{Abs: 1}, func(s Sample) float64 { return float64(s.Leases) }),
		pick("releases not confirmed", Limit{Abs: 1}, func(s Sample) float64 { return float64(s.Releases) }),
	}
	if p.judgesHeap() {
		all = append(all,
			// Maps and free lists keep the size of the largest burst, once.
			pick("heap", Limit{Abs: megabyte, Rel: 0.1}, func(s Sample) float64 { return float64(s.Heap) }),
			pick("heap objects", Limit{Abs: 5000, Rel: 0.1}, func(s Sample) float64 { return float64(s.Objects) }),
		)
	}
	if p.judgesNames() {
		all = append(all,
			// What was not done in a failover of this minute is missing: the numbers swing with the machine.
			pick("keys", Limit{Abs: 200, Rel: 0.2}, func(s Sample) float64 { return float64(s.Store.Keys["core"] + s.Store.Keys["line"]) }),
			pick("memory of the store", Limit{Abs: 2 * megabyte, Rel: 0.2}, func(s Sample) float64 { return float64(s.Store.Memory) }),
		)
	}
	return all
}

// judgesNames reports whether a run is long enough for its names: when the judged part begins, as many are forgotten
// as are made.
func (p Plan) judgesNames() bool { return p.warmUp() >= usualLife }

// judgesHeap reports whether a run is long enough for the heap to be flat. An engine of a quorum remembers each attempt for
// ten minutes.
func (p Plan) judgesHeap() bool { return p.Store != onQuorum || p.warmUp() >= 11*time.Minute }

// usualLife is how long the keys of most names last: 1.08 of the retention, and some seconds of TTL.
const usualLife = 90 * time.Second
