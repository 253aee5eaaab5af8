package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// convoy is clients that all want one resource at the same moment and each
// want it once.
type convoy struct{ *crowd }

func (v convoy) run(ctx context.Context, _ window) (*report, error) {
	before := spent()
	ctx, cancel := context.WithTimeout(ctx, convoyLimit)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range v.callers {
		wg.Go(func() {
			if c.err = v.pass(ctx, c); c.err == nil {
				v.board.done.Add(1)
			}
		})
	}
	wg.Wait()
	used := spent().minus(before)
	var errs []error
	for _, c := range v.callers {
		errs = append(errs, c.err)
	}
	return reportOf(v.callers, used), errors.Join(errs...)
}

// convoyLimit ends a convoy that does not come to an end.
const convoyLimit = time.Minute

// pass is one client's single turn.
func (v convoy) pass(ctx context.Context, c *caller) error {
	v.board.waiting.Add(1)
	asked := time.Now()
	if err := c.l.Lock(ctx); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	v.board.waiting.Add(-1)
	wait := time.Since(asked)
	v.phase.Store(counting)
	gap, handOff := v.inside(c)
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

// convoyOf lets n clients gather behind a holder, who then lets go.
func convoyOf(n int, hold time.Duration) play {
	return func(ctx context.Context, s *stage, c contender) (figures, error) {
		resource := s.fresh("convoy")
		s.crew.board.reset()
		p, first, err := s.takeFirst(ctx, c, resource)
		if err != nil {
			return nil, err
		}
		defer p.close()
		jobs := jobsFor(job{Kind: "convoy", Contender: c.name, Addrs: s.addrs(), Resource: resource, Callers: 1, Hold: hold, TTL: s.ttl}, n)
		if err := s.crew.begin(0, jobs); err != nil {
			return nil, err
		}
		if err := s.crew.open(0, len(jobs), soon(0, 0)); err != nil {
			return nil, err
		}
		if err := s.settled(ctx, n); err != nil {
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
		if err := until(ctx, convoyLimit, func() bool { return s.crew.board.done.Load() == int64(n) }); err != nil {
			return nil, fmt.Errorf("the convoy ends: %w", err)
		}
		after, err := s.meter.read(ctx)
		if err != nil {
			return nil, err
		}
		reports, err := s.crew.reports(0, len(jobs))
		if err != nil {
			return nil, err
		}
		return drained(s, reports, time.Duration(s.crew.board.finished.Load()-start), after.since(before, c))
	}
}

// takeFirst is the holder behind whom others gather.
func (s *stage) takeFirst(ctx context.Context, c contender, resource string) (party, lock, error) {
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

// settled waits until n callers are in Lock, and as long again as the slowest
// peer takes for its first tries.
func (s *stage) settled(ctx context.Context, n int) error {
	if err := until(ctx, convoyLimit, func() bool { return s.crew.board.waiting.Load() == int64(n) }); err != nil {
		return fmt.Errorf("%d callers wait: %w", n, err)
	}
	pause(ctx, 300*time.Millisecond)
	return ctx.Err()
}

// until looks every half a millisecond.
func until(ctx context.Context, limit time.Duration, done func() bool) error {
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

// drained makes the figures of a convoy. Ideal is the time for which the lock
// was held.
func drained(s *stage, reports []*report, drain time.Duration, used serverUsed) (figures, error) {
	f := sum(reports, drain, used)
	var held time.Duration
	for _, r := range reports {
		held += r.Held
	}
	f[drainTime] = milliseconds(drain)
	f[drainPart] = float64(drain) / float64(held)
	if f[overlaps] = float64(s.crew.board.overlaps.Load()); f[overlaps] > 0 {
		return f, fmt.Errorf("two holders at once, %v times", f[overlaps])
	}
	return f, nil
}

// jobsFor spreads n clients over at most 8 processes.
func jobsFor(j job, n int) []job {
	const processes = 8
	jobs := make([]job, min(n, processes))
	for i := range jobs {
		jobs[i] = j
		jobs[i].Process = i
		jobs[i].Clients = (n + len(jobs) - 1 - i) / len(jobs)
	}
	return jobs
}
