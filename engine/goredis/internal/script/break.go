package script

// Break is the arguments of the script.
type Break struct {
	ID    string
	Force bool // end a lease at once
}

// Break makes the call.
func (s *Set) Break(k Keys, a Break) Call {
	c := s.breaks.call(k, a.ID)
	if a.Force {
		c.add("f")
	}
	return c
}

// Read reads the reply: 0, or the cause why there was nothing to break.
func (Break) Read(reply any) (cause int, err error) {
	_, cause, err = outcome(reply)
	return cause, err
}
