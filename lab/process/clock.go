package process

import "time"

// Clock is the wall clock of this very process.
type Clock struct {
	w  *wall
	by time.Duration // what it shows too much
}

// OpenClock makes the wall clock of this process one that can be stepped; call it
// once, and where CanStep. Errors: the system does not let it.
func OpenClock() (*Clock, error) {
	w, err := openWall()
	if err != nil {
		return nil, err
	}
	return &Clock{w: w}, nil
}

// Step sets the clock forward by d, whole seconds; the monotonic clock goes on as
// it was. It must not be called twice at once.
func (c *Clock) Step(d time.Duration) error {
	c.by += d
	return c.w.set(c.by)
}
