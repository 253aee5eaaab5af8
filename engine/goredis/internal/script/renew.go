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

// Read reads the reply: the rest of the lease, or why it is not held.
func (Renew) Read(reply any) (left time.Duration, why Refusal, err error) {
	n, why, err := outcome(reply)
	return micros(n), why, err
}
