package main

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// visitOf has one process use n resources, each once. Then another locks them, one after the other, for the first time.
// The first process stays until then.
func visitOf(n int) measure {
	return func(ctx context.Context, s *testbed, c contender) (figures, error) {
		s.workers.board.reset()
		user := job{Kind: "used", Contender: c.name, Addrs: s.addrs(), Resource: s.newResource("visit"), Leases: n, TTL: s.ttl}
		visitor := user
		visitor.Kind = "visit"
		if err := s.workers.prepare(1, []job{visitor}); err != nil {
			return nil, err
		}
		if err := s.workers.prepare(0, []job{user}); err != nil {
			return nil, err
		}
		visits, err := s.workers.run(1)
		if err != nil {
			return nil, err
		}
		if _, err := s.workers.run(0); err != nil {
			return nil, err
		}
		waits := imported(visits.Waits)
		return figures{
			waitP50: float64(waits.ValueAtQuantile(50)) / 1e6, waitP99: float64(waits.ValueAtQuantile(99)) / 1e6, longestWait: float64(waits.Max()) / 1e6,
		}, nil
	}
}

// visit locks each resource once.
func (v *lockSet) visit(ctx context.Context) (*report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waits := hdrhistogram.New(100, longestTime, 3)
	for _, l := range v.locks {
		from := time.Now()
		if err := l.Lock(ctx); err != nil {
			return nil, err
		}
		_ = waits.RecordValue(int64(time.Since(from))) // in range
		if err := l.Unlock(ctx); err != nil {
			return nil, err
		}
	}
	return &report{Waits: exported(waits)}, nil
}

// warm opens the connections of a visitor and loads the scripts.
func (v *lockSet) warm(resource string) error {
	l, ctx := v.p.lock(resource), context.Background()
	for range 3 {
		if err := l.Lock(ctx); err != nil {
			return err
		}
		if err := l.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}
