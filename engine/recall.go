package engine

import "strings"

// RecallSuffix ends the holder ID of a lease whose holder wants to know that another party wants the
// resource: with a capacity of 1 it may keep the lease for a while after its last use, with a higher
// one it may share it with further readers. If the engine is a Recaller, the holder is sent a
// WakeWanted in the step in which a request for the whole capacity becomes the first in the queue of
// the resource, and with a capacity of 1 in each step that answers Busy. Of many holders it recalls
// some. So the property needs no state in the store, and lasts as long as the lease.
const RecallSuffix = "~"

// Recallable reports whether a holder ID ends in RecallSuffix.
func Recallable(holderID string) bool { return strings.HasSuffix(holderID, RecallSuffix) }

// A Recaller is an Engine that may recall leases. Of any other engine no lease is recalled.
type Recaller interface {
	Engine

	// Recalls reports whether it recalls leases, as it does if it pushes wake-ups.
	Recalls() bool
}
