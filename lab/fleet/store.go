// Package fleet simulates a fleet on one Redis, in virtual time: real Holdfast clients, and a
// memory engine behind a server that serves one call at a time and takes as long for each as
// Redis was measured to take. Its test prints the figures of docs/TUNING.md.
package fleet

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Costs are the server's CPU times: Call for a call, and Renewal for each lease in a call that
// renews.
type Costs struct{ Call, Renewal time.Duration }

// Load is what the server did in a time.
type Load struct {
	Calls    int
	Renewals int
	Busy     time.Duration
}

// As in engine/goredis, up to singly renewals are a call each, and a call renews up to merged.
const (
	singly = 4
	merged = 64
)

// store is the server.
type store struct {
	engine.Engine
	costs Costs

	mu   sync.Mutex
	free time.Time // when it has served all calls so far
	down time.Time // calls before this fail
	load Load
}

// outage lets calls fail for a time.
func (s *store) outage(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = time.Now().Add(d)
}

// take returns the load since the last take.
func (s *store) take() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.load
	s.load = Load{}
	return l
}

// serve waits until the server has served some calls of one client. If ctx ends before, the
// server serves them all the same.
func (s *store) serve(ctx context.Context, calls, renewals int) error {
	s.mu.Lock()
	now := time.Now()
	if now.Before(s.down) {
		s.mu.Unlock()
		return fmt.Errorf("%w: connection refused", engine.ErrUnavailable)
	}
	cost := time.Duration(calls)*s.costs.Call + time.Duration(renewals)*s.costs.Renewal
	if s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(cost)
	wait := s.free.Sub(now)
	s.load.Calls += calls
	s.load.Renewals += renewals
	s.load.Busy += cost
	s.mu.Unlock()
	served := time.NewTimer(wait)
	defer served.Stop()
	select {
	case <-served.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
	}
}

// Acquire implements engine.Engine.
func (s *store) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	if err := s.serve(ctx, 1, 0); err != nil {
		return engine.Answer{}, err
	}
	return s.Engine.Acquire(ctx, r)
}

// Release implements engine.Engine.
func (s *store) Release(ctx context.Context, r engine.Release) error {
	if err := s.serve(ctx, 1, 0); err != nil {
		return err
	}
	return s.Engine.Release(ctx, r)
}

// Renew implements engine.Engine.
func (s *store) Renew(ctx context.Context, batch []engine.Renewal) []error {
	calls := (len(batch) + merged - 1) / merged
	if len(batch) <= singly {
		calls = len(batch)
	}
	if err := s.serve(ctx, calls, len(batch)); err != nil {
		errs := make([]error, len(batch))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return s.Engine.Renew(ctx, batch)
}
