package subject

import (
	"sync/atomic"
	"time"
)

// Clock is the wall clock of one client, which the lab can step. The zero Clock
// and a nil one show the machine's time.
type Clock struct{ ahead atomic.Int64 }

// Now reads the clock. The answer has no monotonic part, as in the languages
// that most of the old locks were written in.
func (c *Clock) Now() time.Time {
	if c == nil {
		return time.Now().Round(0)
	}
	return time.Now().Round(0).Add(time.Duration(c.ahead.Load()))
}

// Step sets the clock forward by d, or back if d is negative.
func (c *Clock) Step(d time.Duration) { c.ahead.Add(int64(d)) }

// Real is when the clock will show t, by the machine's time, if it is not
// stepped meanwhile.
func (c *Clock) Real(t time.Time) time.Time {
	if c == nil {
		return t
	}
	return t.Add(-time.Duration(c.ahead.Load()))
}
