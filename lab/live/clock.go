package live

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// sharedClock reads the clock that all processes of the machine share.
func sharedClock() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("the monotonic clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// here is the instant of this process at which the shared clock showed at. Of
// several readings the one counts during which the least time passed.
func here(at time.Duration) (time.Time, error) {
	var best time.Time
	least := time.Hour
	for range 20 {
		before := time.Now()
		shared, err := sharedClock()
		if err != nil {
			return time.Time{}, err
		}
		if took := time.Since(before); took < least {
			least, best = took, before.Add(at-shared)
		}
	}
	return best, nil
}
