package keepalive

import (
	"sync/atomic"
	"time"
)

// Margin is what a trust window of a lease is shorter than its TTL: 20 ms for a
// holder that is scheduled late plus 2 % of the TTL for clocks that do not run
// at the same rate.
func Margin(ttl time.Duration) time.Duration { return 20*time.Millisecond + ttl/50 }

// Window is the trust window of a lease: the local time in which its holder may
// act. It counts from the moment the attempt or renewal was SENT, since the
// store cannot have counted from earlier, and it ends by whichever of two clocks
// says so first: Go's monotonic clock stops while the machine is suspended, and
// the wall clock may be stepped back.
//
// The zero Window is closed. A Window may be read while it is extended.
type Window struct {
	mono atomic.Int64 // nanoseconds since base, by the monotonic clock
	wall atomic.Int64 // nanoseconds since 1970, by the wall clock
	base time.Time
}

// Start opens the window for the first time, before it is shared.
func (w *Window) Start(sent time.Time, ttl, margin time.Duration) {
	w.base = sent
	w.mono.Store(int64(ttl - margin))
	w.wall.Store(sent.UnixNano() + int64(ttl-margin))
}

// Extend moves the end to sent + ttl − margin if that is later. What is later
// says the monotonic clock; the wall clock's end follows, back as well if that
// clock was stepped back. Concurrent extensions must be serialised by the caller.
func (w *Window) Extend(sent time.Time, ttl, margin time.Duration) {
	if end := int64(sent.Sub(w.base) + ttl - margin); end > w.mono.Load() {
		w.mono.Store(end)
		w.wall.Store(sent.UnixNano() + int64(ttl-margin))
	}
}

// Left is how long the window stays open; zero or less means closed.
func (w *Window) Left(now time.Time) time.Duration {
	mono := w.mono.Load() - int64(now.Sub(w.base))
	wall := w.wall.Load() - now.UnixNano()
	return time.Duration(min(mono, wall))
}

// End is when the window closes.
func (w *Window) End() time.Time { return w.base.Add(time.Duration(w.mono.Load())) }
