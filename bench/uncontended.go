package main

import (
	"context"
	"time"
)

// cancellable makes a contender pay for a ctx that may end in mid-call.
func cancellable(c *contender, err error) (*contender, error) {
	if err != nil {
		return nil, err
	}
	inner := c.pair
	c.name += ", ctx that can end"
	c.pair = func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return inner(ctx)
	}
	return c, nil
}

// contenders opens several and closes those it opened if one fails.
func contenders(open ...func() (*contender, error)) ([]*contender, error) {
	var all []*contender
	for _, o := range open {
		c, err := o()
		if err != nil {
			for _, c := range all {
				c.done()
			}
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// uncontended times one caller that locks and unlocks a free resource.
func uncontended(e *env) (result, error) {
	r := result{Unit: "µs for a lock and an unlock"}
	all, err := contenders(
		func() (*contender, error) { return evalFloor(e) },
		func() (*contender, error) { return scriptFloor(e) },
		func() (*contender, error) { return holdfastMutex(e, "free") },
		func() (*contender, error) { return cancellable(holdfastMutex(e, "free too")) },
		func() (*contender, error) { return redsyncMutex(e, "redsync:free") },
	)
	if err != nil {
		return r, err
	}
	figures := map[string][]float64{}
	var names []string
	for _, c := range all {
		defer c.done()
		names = append(names, c.name)
		if err := repeat(e, c, e.slice/3, nil); err != nil { // warm up
			return r, err
		}
	}
	trips, err := roundTrips(e, all[2])
	if err != nil {
		return r, err
	}
	// One pair of each in turn: a machine that is slow for a moment is so for all.
	for range e.rounds {
		times := make([][]float64, len(all))
		for end := time.Now().Add(e.slice * time.Duration(len(all))); time.Now().Before(end); {
			for i, c := range all {
				start := time.Now()
				if err := c.pair(context.Background()); err != nil {
					return r, err
				}
				times[i] = append(times[i], float64(time.Since(start).Nanoseconds())/1000)
			}
		}
		for i, c := range all {
			figures[c.name] = append(figures[c.name], median(times[i]))
		}
	}
	r.Rows = rowsOf(names, figures)
	r.atMost("round trips of a pair", trips, 2)
	r.atMost("holdfast / two bare EVALSHA", r.ratio("holdfast"), 1.1)
	r.atMost("holdfast / the same scripts, sent by hand", r.ratio("holdfast")/r.ratio("the same scripts, sent by hand"), 1.1)
	return r, nil
}

// repeat runs pairs for a time and counts them.
func repeat(e *env, c *contender, d time.Duration, pairs *int) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := c.pair(context.Background()); err != nil {
			return err
		}
		if pairs != nil {
			*pairs++
		}
	}
	return nil
}

// roundTrips counts the commands that the server sees for a pair.
func roundTrips(e *env, c *contender) (float64, error) {
	const pairs = 1000
	rdb := e.server.Client()
	defer rdb.Close()
	before, err := sentCommands(e, rdb)
	if err != nil {
		return 0, err
	}
	for range pairs {
		if err := c.pair(context.Background()); err != nil {
			return 0, err
		}
	}
	after, err := sentCommands(e, rdb)
	return float64(after-before) / pairs, err
}
