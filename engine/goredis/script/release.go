package script

// Release is the arguments of the script.
type Release struct {
	ID       string
	Token    uint64
	Withdraw bool
}

// Release makes the call.
func (s *Set) Release(k Keys, a Release) Call {
	c := s.release.call(k, a.ID, a.Token)
	if a.Withdraw {
		c.add("w")
	}
	c.full = s.releaseFull
	return c
}

// Read reads the reply: the cause, above 0, why nothing was held, or 0.
func (Release) Read(reply any) (cause int, err error) {
	_, cause, err = outcome(reply)
	return cause, err
}
