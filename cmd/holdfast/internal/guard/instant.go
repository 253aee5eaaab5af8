package guard

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a time on a clock that all processes of this machine share, that cannot be
// set, and that also runs while the machine is suspended. The zero Instant means none.
type Instant int64

// never is later than every instant.
const never = Instant(math.MaxInt64)

// now returns the present Instant.
func now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(sharedClock, &ts); err != nil {
		// The clock exists on all systems that this package supports. With 0, every
		// deadline would be far away.
		panic("guard: no monotonic clock: " + err.Error())
	}
	return Instant(ts.Nano())
}

// At converts the time that a function returns, never to a later instant.
func At(deadline func() time.Time) Instant {
	here := now() // first, so that a pause or a suspend until the end makes the result earlier
	return here + Instant(time.Until(deadline()))
}

func (i Instant) add(d time.Duration) Instant     { return i + Instant(d) }
func (i Instant) sub(other Instant) time.Duration { return time.Duration(i - other) }
func earlier(a, b Instant) Instant                { return min(a, b) }
