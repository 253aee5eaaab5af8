package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// convoy is clients that wait for one resource at the same time, each for one turn.
type convoy struct{ *crowd }

func (v convoy) run(ctx context.Context, _ window) (*report, error) {
	before := usageNow()
	ctx, cancel := context.WithTimeout(ctx, convoyLimit)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range v.callers {
		wg.Go(func() {
			if c.err = v.turn(ctx, c); c.err == nil {
				v.board.done.Add(1)
			}
		})
	}
	wg.Wait()
	used := usageNow().minus(before)
	var errs []error
	for _, c := range v.callers {
		errs = append(errs, c.err)
	}
	return reportOf(v.callers, used), errors.Join(errs...)
}

// convoyLimit is the timeout of a convoy.
const convoyLimit = time.Minute

// turn is the single turn of one client.
func (v convoy) turn(ctx context.Context, c *caller) error {
	v.board.waiting.Add(1)
	asked := time.Now()
	if err := c.l.Lock(ctx); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	v.board.waiting.Add(-1)
	wait := time.Since(asked)
	v.phase.Store(counting)
	gap, handOff := v.critical(c)
	if err := c.l.Unlock(ctx); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	now := monotonic()
	for old := v.board.finished.Load(); old < now && !v.board.finished.CompareAndSwap(old, now); {
		old = v.board.finished.Load()
	}
	c.longest = wait
	c.note(wait, gap, handOff)
	return nil
}

// convoyOf measures n clients that wait until a holder releases.
func convoyOf(n int, hold time.Duration) measure {
	return func(ctx context.Context, s *testbed, c contender) (figures, error) {
		resource := s.newResource("convoy")
		s.workers.board.reset()
		p, first, err := s.holdFirst(ctx, c, resource)
		if err != nil {
			return nil, err
		}
		defer p.close()
		jobs := splitJob(job{Kind: "convoy", Contender: c.name, Addrs: s.addrs(), Resource: resource, Callers: 1, Hold: hold, TTL: s.ttl}, n)
		if err := s.workers.prepare(0, jobs); err != nil {
			return nil, err
		}
		if err := s.workers.open(0, len(jobs), windowIn(0, 0)); err != nil {
			return nil, err
		}
		if err := s.awaitWaiting(ctx, n); err != nil {
			return nil, err
		}
		before, err := s.meter.read(ctx)
		if err != nil {
			return nil, err
		}
		start := monotonic()
		if err := first.Unlock(ctx); err != nil {
			return nil, err
		}
		if err := pollUntil(ctx, convoyLimit, func() bool { return s.workers.board.done.Load() == int64(n) }); err != nil {
			return nil, fmt.Errorf("wait for the end of the convoy: %w", err)
		}
		after, err := s.meter.read(ctx)
		if err != nil {
			return nil, err
		}
		reports, err := s.workers.reports(0, len(jobs))
		if err != nil {
			return nil, err
		}
		return drainFigures(s, reports, time.Duration(s.workers.board.finished.Load()-start), after.since(before, c))
	}
}

// holdFirst acquires the lock of the holder in front of the convoy.
func (s *testbed) holdFirst(ctx context.Context, c contender, resource string) (client, lock, error) {
	p, err := c.open(settings{addrs: s.addrs(), callers: 1, ttl: s.ttl})
	if err != nil {
		return nil, nil, err
	}
	if m, ok := p.(provider); ok {
		err = m.provide(ctx, resource)
	}
	l := p.lock(resource)
	if err == nil {
		err = l.Lock(ctx)
	}
	if err != nil {
		p.close()
	}
	return p, l, err
}

// awaitWaiting waits until n callers are in Lock, and then as long as the slowest
// peer needs for its first tries.
func (s *testbed) awaitWaiting(ctx context.Context, n int) error {
	if err := pollUntil(ctx, convoyLimit, func() bool { return s.workers.board.waiting.Load() == int64(n) }); err != nil {
		return fmt.Errorf("wait for %d callers in Lock: %w", n, err)
	}
	pause(ctx, 300*time.Millisecond)
	return ctx.Err()
}

// pollUntil calls done every 500 µs until it returns true.
func pollUntil(ctx context.Context, limit time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !done() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause(ctx, 500*time.Microsecond)
	}
	return nil
}

// drainFigures returns the figures of a convoy. The ideal drain is the time for which
// the lock was held.
func drainFigures(s *testbed, reports []*report, drain time.Duration, used serverUsed) (figures, error) {
	f := sum(reports, drain, used)
	var held time.Duration
	for _, r := range reports {
		held += r.Held
	}
	f[drainTime] = milliseconds(drain)
	f[drainPart] = float64(drain) / float64(held)
	if f[overlaps] = float64(s.workers.board.overlaps.Load()); f[overlaps] > 0 {
		return f, fmt.Errorf("%w, %v times", errTwoHolders, f[overlaps])
	}
	return f, nil
}

// splitJob spreads n clients over at most 8 processes.
func splitJob(j job, n int) []job {
	const processes = 8
	jobs := make([]job, min(n, processes))
	first := 0
	for i := range jobs {
		jobs[i] = j
		jobs[i].Process = i
		jobs[i].Clients = (n + len(jobs) - 1 - i) / len(jobs)
		jobs[i].First, jobs[i].All = first, n*j.Callers
		first += jobs[i].Clients * j.Callers
	}
	return jobs
}
