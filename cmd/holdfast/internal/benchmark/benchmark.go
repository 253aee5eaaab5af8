// Package benchmark measures what locks cost on a store as it is, from where the
// program runs: a round trip, a free lock, many locks at once, many callers of one
// lock, and the hand-off between two clients. It is a short selection; what other
// locks cost beside Holdfast is measured by the project's own benchmark.
package benchmark

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Config says what is measured, and how long each part of it takes.
type Config struct {
	// Client and Other are two clients of the same store and prefix.
	Client, Other *holdfast.Client
	// RoundTrip calls a script that does nothing.
	RoundTrip func(ctx context.Context) error
	// Callers is the number of goroutines of the parts with many; at least 1.
	Callers int
	// For is the time of each part.
	For time.Duration
}

// Result is everything that was measured. A part goes on beyond its time until it
// has something to tell: one pair, a turn of every caller, one hand-off.
type Result struct {
	RoundTrip Times // of a script that does nothing
	Free      Times // a lock and an unlock that nobody else wants
	Spread    Turns // callers with a resource each
	Shared    Turns // callers of one process on one resource
	HandOff   Times // between two clients: from the begin of a release to the other's entry
}

// Times are of single events.
type Times struct {
	Count    int
	P50, P99 time.Duration
}

// Turns are what callers got. A rate says little without the other two: who polls
// looks fast where whoever releases a lock takes it again at once.
type Turns struct {
	Callers     int
	PerSecond   float64
	WorstCaller float64 // the fewest turns of a caller, as a part of a fair share
	LongestWait time.Duration
}

// Run measures. Its resources have names that nobody else uses; what is left of
// them in the store ends by its TTL. It ends early, with ctx's cause, when ctx
// ends.
func Run(ctx context.Context, c Config) (Result, error) {
	name := "bench:" + rand.Text()
	var r Result
	var err error
	if r.RoundTrip, r.Free, err = c.single(ctx, name); err != nil {
		return r, err
	}
	if r.Spread, err = c.crowd(ctx, func(i int) string { return fmt.Sprintf("%s:%d", name, i) }); err != nil {
		return r, err
	}
	if r.Shared, err = c.crowd(ctx, func(int) string { return name }); err != nil {
		return r, err
	}
	r.HandOff, err = c.handOff(ctx, name+":handoff")
	return r, err
}

// single times round trips and pairs in turn, so that a store that is slow for a
// moment is so for both.
func (c Config) single(ctx context.Context, name string) (trip, free Times, err error) {
	m := c.Client.Mutex(name)
	pair := func() error {
		l, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
	var trips, pairs []time.Duration
	for end := time.Now().Add(c.For); len(pairs) == 0 || time.Now().Before(end); {
		start := time.Now()
		if err := c.RoundTrip(ctx); err != nil {
			return trip, free, err
		}
		between := time.Now()
		if err := pair(); err != nil {
			return trip, free, err
		}
		trips, pairs = append(trips, between.Sub(start)), append(pairs, time.Since(between))
	}
	return timesOf(trips), timesOf(pairs), nil
}

func timesOf(all []time.Duration) Times {
	if len(all) == 0 {
		return Times{}
	}
	slices.Sort(all)
	return Times{Count: len(all), P50: all[len(all)/2], P99: all[len(all)*99/100]}
}
