package keepalive

import (
	"container/heap"
	"time"
)

// lookEvery is how often the clocks are compared while leases are held. A suspend of the machine
// stops the monotonic clock, and with it the timers, but not the wall clock.
const lookEvery = time.Second

// mostDrift is how much the wall clock may gain between two looks without a suspend or a step:
// twenty times what NTP may gain in a second by slewing, and half of the least Margin.
const mostDrift = 10 * time.Millisecond

// ahead is the wall clock less the monotonic one. Only a suspend and a clock that is set change it.
func (m Moment) ahead() int64 { return m.Wall - int64(m.Mono) }

// suspended reports whether the machine was suspended since the latest look, or its wall clock set
// forward: then windows have closed, or end sooner, than the monotonic clock says.
func (s *Scheduler) suspended(now Moment) bool {
	was := s.ahead
	s.ahead = now.ahead()
	return s.ahead-was > int64(mostDrift)
}

// hurry makes all batches due: windows that have closed are found, and the leases that are left renewed.
func (s *Scheduler) hurry(now Moment) {
	for _, b := range s.heap {
		b.due = now.Mono
	}
	heap.Init(&s.heap)
}
