package holdfast

// A CleanupFailedHook is called when the store has confirmed neither the release
// of a lease nor the withdrawal of a wait for so long that the client does not
// try again. The lease or wait ends by its TTL. For leases that Close releases,
// Close returns the error instead.
type CleanupFailedHook interface{ CleanupFailed(e CleanupFailedEvent) }

// A CleanupFailedEvent is a lease or a wait that may be left in the store.
type CleanupFailedEvent struct {
	Resource string
	Token    uint64 // of the lease; 0: a wait, or a request of unknown outcome
	Err      error  // of the last try
}
