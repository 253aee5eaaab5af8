package script

// Resize is the arguments of the script.
type Resize struct {
	ID     string
	Token  uint64
	Weight int
}

// Resize makes the call.
func (s *Set) Resize(k Keys, a Resize) Call {
	c := s.resize.call(k, a.ID, a.Weight, a.Token)
	c.full = s.resizeFull
	return c
}

// Read reads the reply: whether the weight was between 1 and the present one, and why the lease is
// not held.
func (Resize) Read(reply any) (fits bool, why Refusal, err error) {
	n, why, err := outcome(reply)
	return n == 0, why, err
}
