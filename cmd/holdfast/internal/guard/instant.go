package guard

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a time on a clock that all processes of this machine share, that cannot be
// set, and that also runs while the machine is suspended. Zero is no instant.
type Instant int64

// never is later than every instant.
const never = Instant(math.MaxInt64)

// now reads that clock.
func now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(sharedClock, &ts); err != nil {
		// The clock exists on all systems that this package supports. A wrong
		// instant would make every deadline look far away.
		panic("guard: no monotonic clock: " + err.Error())
	}
	return Instant(ts.Nano())
}

// At converts t, never to a later instant.
func At(t time.Time) Instant {
	here := now() // before time.Until: a pause between the two only shortens
	return here + Instant(time.Until(t))
}

func (i Instant) add(d time.Duration) Instant     { return i + Instant(d) }
func (i Instant) sub(other Instant) time.Duration { return time.Duration(i - other) }
func earlier(a, b Instant) Instant                { return min(a, b) }
