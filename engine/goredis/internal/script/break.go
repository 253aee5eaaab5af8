package script

// Break is the arguments of the script.
type Break struct {
	ID     string
	Force  bool // end a lease at once
	Reason string
}

// Break makes the call.
func (s *Set) Break(k Keys, a Break) Call {
	c := s.breaks.call(k, a.ID)
	force := ""
	if a.Force {
		force = "f"
	}
	switch {
	case a.Reason != "":
		c.add(force, a.Reason)
	case a.Force:
		c.add(force)
	}
	return c
}

// Read reads the reply: 0, or why there was nothing to break.
func (Break) Read(reply any) (why Refusal, err error) {
	_, why, err = outcome(reply)
	return why, err
}
