package script

import "time"

// Renew is the arguments of the script.
type Renew struct {
	ID    string
	Token uint64
	TTL   time.Duration
}

// Renew makes the call.
func (s *Set) Renew(k Keys, a Renew) Call {
	c := s.renew.call(k, a.ID, a.TTL.Microseconds(), a.Token)
	c.full = s.renewFull
	return c
}

// Read reads the reply: the rest of the lease, or the cause, above 0, why it is not held.
func (Renew) Read(reply any) (left time.Duration, cause int, err error) {
	n, cause, err := outcome(reply)
	return micros(n), cause, err
}
