package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// lockSet is one process that holds several resources or waits for them.
type lockSet struct {
	board *board
	kind  string // of the job
	p     client
	locks []lock
}

// newLockSet acquires the resources if the kind of the job is "hold", and also releases them if it is "used".
func newLockSet(b *board, c contender, j job) (*lockSet, error) {
	p, err := c.open(settings{addrs: j.Addrs, callers: j.Leases, ttl: j.TTL})
	if err != nil {
		return nil, err
	}
	v := &lockSet{board: b, kind: j.Kind, p: p}
	for i := range j.Leases {
		v.locks = append(v.locks, p.lock(lockSetName(j.Resource, i)))
	}
	if err := v.begin(j); err != nil {
		p.close()
		return nil, err
	}
	return v, nil
}

func (v *lockSet) begin(j job) error {
	switch j.Kind {
	case "hold":
		for _, l := range v.locks {
			if err := l.Lock(context.Background()); err != nil {
				return err
			}
		}
	case "used":
		_, err := v.visit(context.Background())
		return err
	case "visit":
		return v.warm(j.Resource + ":warm")
	}
	return nil
}

func lockSetName(resource string, i int) string { return fmt.Sprintf("%s:%d", resource, i) }

// run waits for all resources and records the time of each grant. A holder releases them and records the time
// before each release.
func (v *lockSet) run(ctx context.Context, _ window) (*report, error) {
	switch v.kind {
	case "hold":
		return v.release(ctx)
	case "used":
		return &report{}, nil
	case "visit":
		return v.visit(ctx)
	}
	// With a context that can end, rueidislock tries again after a missed message;
	// otherwise it would wait for ever.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &report{Entered: make([]time.Time, len(v.locks))}
	errs := make([]error, len(v.locks))
	var wg sync.WaitGroup
	for i, l := range v.locks {
		wg.Go(func() {
			v.board.waiting.Add(1)
			errs[i] = l.Lock(ctx)
			r.Entered[i] = time.Now()
			if errs[i] == nil {
				errs[i] = l.Unlock(ctx)
			}
		})
	}
	wg.Wait()
	return r, errors.Join(errs...)
}

func (v *lockSet) release(ctx context.Context) (*report, error) {
	r := &report{Entered: make([]time.Time, len(v.locks))}
	for i, l := range v.locks {
		r.Entered[i] = time.Now()
		if err := l.Unlock(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (v *lockSet) close() { v.p.close() }

// killTTL is short, because every round waits for it.
const killTTL = time.Second

// killOf kills a process that holds n resources while another waits for each.
func killOf(n int) measure {
	return func(ctx context.Context, s *testbed, c contender) (figures, error) {
		resource := s.newResource("kill")
		s.workers.board.reset()
		j := job{Kind: "hold", Contender: c.name, Addrs: s.addrs(), Resource: resource, Leases: n, TTL: killTTL}
		if err := s.workers.prepare(0, []job{j}); err != nil {
			return nil, err
		}
		j.Kind = "await"
		if err := s.workers.prepare(1, []job{j}); err != nil {
			return nil, err
		}
		if err := s.workers.open(1, 1, windowIn(0, 0)); err != nil {
			return nil, err
		}
		if err := s.awaitWaiting(ctx, n); err != nil {
			return nil, err
		}
		s.workers.kill(0)
		ends, err := leaseEnds(ctx, s.meter.rdb, c, resource, n)
		if err != nil {
			return nil, err
		}
		reports, err := s.workers.reports(1, 1)
		if err != nil {
			return nil, err
		}
		return lateness(ends, reports[0].Entered), nil
	}
}

// killUserOf kills a process whose n leases linger after their use. Then another waits for each.
func killUserOf(n int) measure {
	return func(ctx context.Context, s *testbed, c contender) (figures, error) {
		user := job{Kind: "used", Contender: c.name, Addrs: s.addrs(), Resource: s.newResource("kill"), Leases: n, TTL: 3 * killTTL} // the least that may linger for a second
		if err := s.workers.prepare(0, []job{user}); err != nil {
			return nil, err
		}
		s.workers.kill(0)
		ends, err := leaseEnds(ctx, s.meter.rdb, c, user.Resource, n)
		if err != nil {
			return nil, err
		}
		next := user
		next.Kind = "await"
		if err := s.workers.prepare(1, []job{next}); err != nil {
			return nil, err
		}
		entered, err := s.workers.run(1)
		if err != nil {
			return nil, err
		}
		return lateness(ends, entered.Entered), nil
	}
}

// leaseEnds returns the times at which the leases of a killed process end in the store.
// The pause lets the server execute the commands that the process sent before its end.
func leaseEnds(ctx context.Context, rdb *redis.Client, c contender, resource string, n int) ([]time.Time, error) {
	pause(ctx, 20*time.Millisecond)
	ends := make([]time.Time, n)
	for i := range ends {
		var err error
		if ends[i], err = c.leaseEnd(ctx, rdb, lockSetName(resource, i)); err != nil {
			return nil, fmt.Errorf("%s: the end of its lease: %w", c.name, err)
		}
		if time.Until(ends[i]) < 0 {
			return nil, fmt.Errorf("%s: its lease ended at %v, before it was read", c.name, ends[i])
		}
	}
	return ends, nil
}

// lateness returns the figures of the times from the ends of leases to the next entries.
func lateness(ends, entered []time.Time) figures {
	all := make([]float64, len(ends))
	for i := range ends {
		all[i] = milliseconds(entered[i].Sub(ends[i]))
	}
	return figures{lateP50: median(all), lateMax: slices.Max(all), lateMin: slices.Min(all)}
}

// killFirstWaiterOf kills the first waiter of each of n resources. Then the holder releases them, and another process
// waits for each.
func killFirstWaiterOf(n int) measure {
	return func(ctx context.Context, s *testbed, c contender) (figures, error) {
		resource := s.newResource("waiter")
		s.workers.board.reset()
		j := job{Kind: "await", Contender: c.name, Addrs: s.addrs(), Resource: resource, Leases: n, TTL: s.ttl}
		holder := j
		holder.Kind = "hold"
		if err := s.workers.prepare(1, []job{holder}); err != nil {
			return nil, err
		}
		for i, waiter := range []int{0, 2} {
			if err := s.workers.prepare(waiter, []job{j}); err != nil {
				return nil, err
			}
			if err := s.workers.open(waiter, 1, windowIn(0, 0)); err != nil {
				return nil, err
			}
			if err := s.awaitWaiting(ctx, (i+1)*n); err != nil {
				return nil, err
			}
		}
		s.workers.kill(0)
		pause(ctx, 20*time.Millisecond) // until the server has closed its connections
		released, err := s.workers.run(1)
		if err != nil {
			return nil, err
		}
		entered, err := s.workers.reports(2, 1)
		if err != nil {
			return nil, err
		}
		return lateness(released.Entered, entered[0].Entered), nil
	}
}
