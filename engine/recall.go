package engine

import "strings"

// RecallSuffix ends the holder ID of a lease of capacity 1 that its holder may keep for a while
// after its last use. If the engine is a Recaller, the holder is sent a WakeWanted in the step in
// which the queue of the resource becomes non-empty, and in each step that answers Busy. So the
// property needs no state in the store, and lasts as long as the lease.
const RecallSuffix = "~"

// Recallable reports whether a holder ID ends in RecallSuffix.
func Recallable(holderID string) bool { return strings.HasSuffix(holderID, RecallSuffix) }

// A Recaller is an Engine that may recall leases. Of any other engine no lease is recalled.
type Recaller interface {
	Engine

	// Recalls reports whether it recalls leases, as it does if it pushes wake-ups.
	Recalls() bool
}
