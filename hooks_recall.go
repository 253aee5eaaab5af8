package holdfast

// A RecallHook is called when the store recalls a lease of this client for the first
// time: another process wants the resource. A lease that is kept with [WithLinger] is
// released at once, or by its holder's Release; readers that share one are joined
// by no newcomer.
type RecallHook interface{ Recall(e RecallEvent) }

// A RecallEvent is a recall of a lease.
type RecallEvent struct {
	Resource string
	Kind     string
	Token    uint64 // of the lease's last turn
}

func (h *hooks) recallReceived(lk *acquirer, token uint64) {
	for _, hook := range h.recalled {
		hook.Recall(RecallEvent{Resource: lk.name, Kind: string(lk.kind), Token: token})
	}
}
