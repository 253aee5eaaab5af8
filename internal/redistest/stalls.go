package redistest

import (
	"sync"
	"testing"
	"time"
)

// Stalls records times in which the machine did not run this process. Tests add them to the bounds
// of promises in real time.
type Stalls struct {
	mu  sync.Mutex
	all []stall
}

// stall is a time in which a goroutine that was due did not run.
type stall struct{ from, to time.Time }

const (
	stallTick  = time.Millisecond
	leastStall = 3 * stallTick
)

// WatchStalls records stalls until the test ends.
func WatchStalls(t testing.TB) *Stalls {
	s, stop := &Stalls{}, make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { s.watch(stop) })
	t.Cleanup(func() { close(stop); wg.Wait() })
	return s
}

func (s *Stalls) watch(stop chan struct{}) {
	tick := time.NewTicker(stallTick)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now := time.Now()
		if now.Sub(last) > leastStall {
			s.mu.Lock()
			s.all = append(s.all, stall{last, now})
			s.mu.Unlock()
		}
		last = now
	}
}

// Between returns how long the process did not run between two instants.
func (s *Stalls) Between(from, to time.Time) (sum time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.from.Before(from) {
			one.from = from
		}
		if one.to.After(to) {
			one.to = to
		}
		sum += max(0, one.to.Sub(one.from))
	}
	return sum
}

// Within fails the test if the time since begin is more than the limit plus the stalls in that time.
// It returns the time.
func (s *Stalls) Within(t testing.TB, begin time.Time, limit time.Duration, what string) time.Duration {
	t.Helper()
	return s.WithinAt(t, begin, time.Now(), limit, what)
}

// WithinAt is Within for the time from begin to end.
func (s *Stalls) WithinAt(t testing.TB, begin, end time.Time, limit time.Duration, what string) time.Duration {
	t.Helper()
	took := end.Sub(begin)
	if took <= limit {
		return took
	}
	if stalled := s.Between(begin, end); took > limit+stalled {
		t.Errorf("%s took %v, %v of which the machine was stalled; want at most %v", what, took, stalled, limit)
	}
	return took
}
