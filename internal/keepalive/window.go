package keepalive

import (
	"sync/atomic"
	"time"
)

// Margin is what a trust window of a lease is shorter than its TTL: 20 ms for a
// holder that is scheduled late plus 2 % of the TTL for clocks that do not run
// at the same rate.
func Margin(ttl time.Duration) time.Duration { return 20*time.Millisecond + ttl/50 }

// Moment is an instant by two clocks, in two numbers: a client may have very
// many leases, and a time.Time takes twice as much where it is kept.
type Moment struct {
	Mono time.Duration // since an epoch of the clock's own; it never goes back
	Wall int64         // nanoseconds since 1970
}

// Clock makes instants that can be compared with each other. See NewClock.
type Clock struct {
	epoch time.Time
	gain  *atomic.Int64 // of the wall clock; nil: none
}

// NewClock returns a clock whose epoch is now.
func NewClock() Clock { return Clock{epoch: time.Now()} }

// Gaining returns the clock with a wall clock that has gained so many nanoseconds. Tests suspend the machine by it.
func (c Clock) Gaining(gain *atomic.Int64) Clock { return Clock{c.epoch, gain} }

// Now reads both clocks.
func (c Clock) Now() Moment { return c.At(time.Now()) }

// Mono reads the monotonic clock, which takes half as long.
func (c Clock) Mono() time.Duration { return time.Since(c.epoch) }

// At converts a reading of time.Now.
func (c Clock) At(t time.Time) Moment {
	m := Moment{t.Sub(c.epoch), t.UnixNano()}
	if c.gain != nil {
		m.Wall += c.gain.Load()
	}
	return m
}

// Closes returns the time at which a window closes, by the clock by which that is sooner. It is computed from the current
// readings, since the wall clock may have been set, and the monotonic one have stood still. Clocks that have only drifted
// move it not: while the window is not extended, it is the same time by the monotonic clock.
func (c Clock) Closes(w *Window) time.Time {
	now := time.Now()
	at := c.At(now)
	left := w.End() - at.Mono
	if sooner := w.Left(at); sooner < left-mostDrift {
		left = sooner
	}
	return now.Add(left)
}

// Window is the trust window of a lease: the local time in which its holder may
// act. It counts from the moment the attempt or renewal was SENT, since the
// store cannot have counted from earlier, and it ends when the first of two clocks
// reaches its end: Go's monotonic clock stops while the machine is suspended, and
// the wall clock may be stepped back.
//
// The zero Window is closed. A Window may be read while it is extended. All
// instants that it is given must be of one Clock.
type Window struct {
	mono atomic.Int64 // its end by the monotonic clock
	wall atomic.Int64 // its end by the wall clock
}

// Start opens the window for the first time, before it is shared.
func (w *Window) Start(sent Moment, ttl, margin time.Duration) {
	w.mono.Store(int64(sent.Mono + ttl - margin))
	w.wall.Store(sent.Wall + int64(ttl-margin))
}

// Extend moves the end to sent + ttl − margin if that is later by the monotonic clock. The
// end by the wall clock is set as well, to an earlier instant if that clock was stepped
// back. The caller must serialise concurrent extensions.
func (w *Window) Extend(sent Moment, ttl, margin time.Duration) {
	if end := sent.Mono + ttl - margin; end > w.End() {
		w.mono.Store(int64(end))
		w.wall.Store(sent.Wall + int64(ttl-margin))
	}
}

// Left is how long the window stays open; zero or less means closed.
func (w *Window) Left(now Moment) time.Duration {
	return min(w.End()-now.Mono, time.Duration(w.wall.Load()-now.Wall))
}

// End is when the window closes, by the monotonic clock.
func (w *Window) End() time.Duration { return time.Duration(w.mono.Load()) }
