package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

// idle holds leases and does nothing: what they cost is their renewals.
func idle(e *env) (result, error) {
	const (
		leases    = 1000
		ttl       = 3 * time.Second
		intervals = 10
	)
	r := result{Unit: fmt.Sprintf("%d held leases, renewed every %v", leases, ttl/3)}
	rdb := e.server.Client()
	defer rdb.Close()
	c, err := holdfast.New(goredis.New(rdb))
	if err != nil {
		return r, err
	}
	defer c.Close()
	before := runtime.NumGoroutine()
	for i := range leases {
		if _, err := c.Mutex(fmt.Sprintf("idle:%d", i), holdfast.WithTTL(ttl)).Lock(e.ctx); err != nil {
			return r, err
		}
	}
	goroutines := runtime.NumGoroutine() - before
	start, err := sentCommands(e, rdb)
	if err != nil {
		return r, err
	}
	select {
	case <-time.After(intervals * ttl / 3):
	case <-e.ctx.Done():
		return r, e.ctx.Err()
	}
	end, err := sentCommands(e, rdb)
	if err != nil {
		return r, err
	}
	rate := float64(end-start) / leases / intervals
	r.Rows = []row{
		{Name: "commands a lease and interval", Median: rate},
		{Name: "goroutines for all leases", Median: float64(goroutines)},
	}
	r.atMost("commands a lease and interval", rate, 1.1)
	r.atMost("goroutines a lease", float64(goroutines)/leases, 0.01)
	return r, nil
}
