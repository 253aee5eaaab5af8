package holdfast

// A BreakHook is called when the client receives a break: an operator broke a
// lease or a wait of this client. For a lease, Lost follows.
type BreakHook interface{ Break(e BreakEvent) }

// A BreakEvent is a break of a lease or of a wait.
type BreakEvent struct {
	Resource string
	Kind     string
	Token    uint64 // of the lease; 0: a wait
}

func (h *hooks) breakReceived(lk *acquirer, token uint64) {
	for _, hook := range h.broken {
		hook.Break(BreakEvent{Resource: lk.name, Kind: string(lk.kind), Token: token})
	}
}
