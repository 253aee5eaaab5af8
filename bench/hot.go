package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// hot runs 64 goroutines of one process on one resource. With the rate go the
// share of the worst caller and the longest wait: a lock that lets whoever
// releases take it again at once looks fast.
func hot(e *env) (result, error) {
	const callers = 64
	r := result{Unit: "turns a second, 64 goroutines on one resource"}
	all, err := contenders(
		func() (*contender, error) { return redsyncMutex(e, "redsync:hot") },
		func() (*contender, error) { return holdfastMutex(e, "hot") },
	)
	if err != nil {
		return r, err
	}
	figures, worst, longest := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	var names []string
	for _, c := range all {
		defer c.done()
		names = append(names, c.name)
	}
	for range e.rounds {
		for _, c := range all {
			rate, share, wait, err := crowd(e, c, callers, 3*e.slice)
			if err != nil {
				return r, err
			}
			figures[c.name] = append(figures[c.name], rate)
			worst[c.name] = append(worst[c.name], share)
			longest[c.name] = append(longest[c.name], wait)
		}
	}
	r.Rows = rowsOf(names, figures)
	for _, name := range names {
		r.Rows = append(r.Rows,
			row{Name: name + ", worst caller's part of its share", Median: median(worst[name])},
			row{Name: name + ", longest wait in ms", Median: median(longest[name])})
	}
	r.atLeast("holdfast / redsync", r.ratio("holdfast"), 20)
	return r, nil
}

// crowd lets callers take turns for a time.
func crowd(e *env, c *contender, callers int, d time.Duration) (rate, worstShare, longestMS float64, err error) {
	turns := make([]int, callers)
	longest := make([]time.Duration, callers)
	var stop atomic.Bool
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for !stop.Load() {
				t0 := time.Now()
				if err := c.pair(e.ctx); err != nil {
					failed.Store(&err)
					return
				}
				longest[i] = max(longest[i], time.Since(t0))
				if !stop.Load() {
					turns[i]++
				}
			}
		})
	}
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	wg.Wait()
	if p := failed.Load(); p != nil {
		return 0, 0, 0, *p
	}
	total, least, most := 0, turns[0], time.Duration(0)
	for i := range turns {
		total += turns[i]
		least = min(least, turns[i])
		most = max(most, longest[i])
	}
	return float64(total) / d.Seconds(), float64(least) / (float64(total) / float64(callers)),
		float64(most.Microseconds()) / 1000, nil
}
