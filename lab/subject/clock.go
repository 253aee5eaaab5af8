package subject

import (
	"sync/atomic"
	"time"
)

// Clock is the wall clock of one client, which the lab can step. The zero Clock and a
// nil one return the machine's time.
type Clock struct{ ahead atomic.Int64 }

// Now returns the clock's time, without a monotonic reading, as in the languages of most
// of the old locks.
func (c *Clock) Now() time.Time {
	if c == nil {
		return time.Now().Round(0)
	}
	return time.Now().Round(0).Add(time.Duration(c.ahead.Load()))
}

// Step sets the clock forward by d, or back if d is negative.
func (c *Clock) Step(d time.Duration) { c.ahead.Add(int64(d)) }

// Real returns the machine's time at which the clock will be t, if it is not stepped
// before.
func (c *Clock) Real(t time.Time) time.Time {
	if c == nil {
		return t
	}
	return t.Add(-time.Duration(c.ahead.Load()))
}
