package engine

import "strings"

// RecallSuffix ends the holder ID of a recallable lease. With a capacity of 1 its holder may keep the
// lease for a while after its last use; with a higher capacity it may share it with further readers. If
// the engine is a Recaller, it sends the holder a WakeWanted in the step in which a request for the
// whole capacity becomes the first in the queue of the resource, and with a capacity of 1 in each step
// that answers Busy. If there are many holders, it recalls some of them. The suffix is part of the ID,
// so the store needs no further state, and the lease is recallable as long as it lasts.
const RecallSuffix = "~"

// Recallable reports whether a holder ID ends in RecallSuffix.
func Recallable(holderID string) bool { return strings.HasSuffix(holderID, RecallSuffix) }

// A Recaller is an Engine that may recall leases. Other engines recall none.
type Recaller interface {
	Engine

	// Recalls reports whether the engine recalls leases, which it does if it pushes wake-ups.
	Recalls() bool
}
