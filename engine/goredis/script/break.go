package script

// Break is the arguments of the script.
type Break struct {
	ID string
}

// Break makes the call.
func (s *Set) Break(k Keys, a Break) Call {
	return s.breaks.call(k, a.ID)
}

// Read reads the reply: the cause, above 0, why there was nothing to break.
func (Break) Read(reply any) (cause int, err error) {
	_, cause, err = outcome(reply)
	return cause, err
}
