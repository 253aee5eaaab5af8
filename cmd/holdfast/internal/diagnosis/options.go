package diagnosis

import "time"

// Options describe the intended use of the store.
type Options struct {
	// Prefix of the resources on which the user needs rights.
	Prefix string
	// TTL is the longest in use. The checks of restarts and failovers depend on it.
	TTL time.Duration
	// ReadOnly leaves out the trials, which acquire and release leases.
	ReadOnly bool
}
