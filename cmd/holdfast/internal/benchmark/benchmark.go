// Package benchmark measures the cost of locks on a store, from where the program runs: a
// round trip, a free lock, many locks at once, many callers of one lock, and the hand-off
// between two clients. The project's own benchmark, in bench, compares Holdfast with other
// locks.
package benchmark

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Config is what is measured, and how long each part takes.
type Config struct {
	// Client and Other are two clients of the same store and prefix.
	Client, Other *holdfast.Client
	// RoundTrip makes a call of the store that does nothing.
	RoundTrip func(ctx context.Context) error
	// Callers is the number of goroutines of the parts with many; at least 1.
	Callers int
	// For is the time of each part.
	For time.Duration
}

// Result is everything that was measured. A part continues beyond its time until it has a result:
// one pair, a turn of every caller, one hand-off.
type Result struct {
	RoundTrip Times // of a call that does nothing
	Free      Times // a lock and an unlock without contention
	Spread    Turns // callers with a resource each
	Shared    Turns // callers of one process on one resource
	HandOff   Times // between two clients: from the start of a release to the return of the other's lock
}

// Times are of single events.
type Times struct {
	Count    int
	P50, P99 time.Duration
}

// Turns are the turns of the callers. The rate alone is misleading: a lock by polling has a high rate
// if the caller that releases it acquires it again at once.
type Turns struct {
	Callers     int
	PerSecond   float64
	WorstCaller float64 // the fewest turns of a caller, as a part of a fair share
	LongestWait time.Duration
}

// Run measures. Its resources have random names; what remains of them in the store expires. If ctx
// ends, Run returns its cause.
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

// single measures round trips and pairs in turn, so that a slow moment of the store affects both.
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
