package keepalive

import "time"

// lookEvery is how often the clocks are compared while leases are held. A suspend of the machine
// stops the monotonic clock, and with it the timers, but not the wall clock.
const lookEvery = time.Second

// mostDrift is how far the wall clock may gain on the monotonic one before that moves what is due, and what Closes returns: half
// of the least Margin.
const mostDrift = 10 * time.Millisecond

// ahead is the wall clock less the monotonic one. Only a suspend, a clock that is set, and clocks that drift change it.
func (m Moment) ahead() int64 { return m.Wall - int64(m.Mono) }

// since is how long ago an instant was, by the clock by which that is longer.
func (m Moment) since(before Moment) time.Duration {
	return max(m.Mono-before.Mono, time.Duration(m.Wall-before.Wall))
}

// look compares the clocks. If the wall clock has gained since what is due was last moved, the machine was suspended, or that
// clock set forward: then everything is due so much sooner, as if the monotonic clock had not stood still. The order stays,
// so the heap does, and leases that were due at different times still are.
//
// It is called before anything is made due by the same reading, which is then not moved for what went before, and with s.mu
// locked, so that no older reading follows.
func (s *Scheduler) look(now Moment) {
	s.ahead = min(s.ahead, now.ahead())
	gained := time.Duration(now.ahead() - s.ahead)
	if gained <= mostDrift {
		return
	}
	s.ahead = now.ahead()
	for _, b := range s.heap {
		b.due -= gained
	}
}
