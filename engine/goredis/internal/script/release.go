package script

import "time"

// Release is the arguments of the script.
type Release struct {
	ID       string
	Token    uint64
	Withdraw bool
	Mark     time.Duration
}

// Release makes the call.
func (s *Set) Release(k Keys, a Release) Call {
	c := s.release.call(k, a.ID, a.Token)
	// The script takes its fast paths only without the further arguments.
	switch {
	case a.Mark > 0 && a.Withdraw:
		c.add("w", a.Mark.Microseconds())
	case a.Mark > 0:
		c.add("", a.Mark.Microseconds())
	case a.Withdraw:
		c.add("w")
	}
	c.full = s.releaseFull
	return c
}

// Read reads the reply: 0, or why nothing was held.
func (Release) Read(reply any) (why Refusal, err error) {
	_, why, err = outcome(reply)
	return why, err
}
