package diagnosis

import (
	"slices"
	"time"
)

const (
	// There are pings round trips, or as many as fit in pingTime.
	pings    = 20
	pingTime = 2 * time.Second
)

// RoundTrips are the times that some pings took.
type RoundTrips []time.Duration

// MeasureRoundTrips repeats a ping. It ends at the first error.
func MeasureRoundTrips(ping func() error) (RoundTrips, error) {
	var all RoundTrips
	for begin := time.Now(); len(all) < pings && time.Since(begin) < pingTime; {
		sent := time.Now()
		if err := ping(); err != nil {
			return all, err
		}
		all = append(all, time.Since(sent))
	}
	return all, nil
}

// Median returns the median, or 0 if there is none.
func (r RoundTrips) Median() time.Duration {
	sorted := slices.Sorted(slices.Values(r))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// Longest returns the longest, or 0 if there is none.
func (r RoundTrips) Longest() time.Duration {
	if len(r) == 0 {
		return 0
	}
	return slices.Max(r)
}
