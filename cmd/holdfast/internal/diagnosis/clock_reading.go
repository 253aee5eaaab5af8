package diagnosis

import (
	"time"
)

// clockLooks is how often a store's clock is read. The fastest answer counts.
const clockLooks = 8

// ClockReading is the difference between a store's clock and this machine's.
type ClockReading struct {
	Known bool
	Ahead time.Duration // of this machine's clock
	Error time.Duration // half the round trip
}

// ReadClock reads a clock several times, and returns the most exact reading. It ends at the first error,
// and then returns what it has.
func ReadClock(read func() (time.Time, error)) (r ClockReading, err error) {
	for range clockLooks {
		sent := time.Now()
		there, err := read()
		if err != nil {
			return r, err
		}
		half := time.Since(sent) / 2 // the store may have read its clock at any time between
		if !r.Known || half < r.Error {
			// Round(0) leaves the wall clock, which is what is compared.
			r = ClockReading{true, there.Sub(sent.Round(0).Add(half)), half}
		}
	}
	return r, nil
}

// String says how the clock differs, as in "5ms ahead of this machine (± 1ms)".
func (r ClockReading) String() string {
	switch {
	case r.Ahead > r.Error:
		return Span(r.Ahead) + " ahead of this machine (± " + Span(r.Error) + ")"
	case r.Ahead < -r.Error:
		return Span(-r.Ahead) + " behind this machine (± " + Span(r.Error) + ")"
	}
	return "the same as this machine (± " + Span(r.Error) + ")"
}
