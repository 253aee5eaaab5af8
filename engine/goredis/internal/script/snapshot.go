package script

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot is the arguments of the script. The zero value with Most is for the first part of a
// state; Rest of each reply is for the next part.
type Snapshot struct {
	// Most is how many entries of the line the part has at most.
	Most int
	// WaiterLife is how long a waiter is live after its last poll.
	WaiterLife time.Duration

	score  string
	passed int64
}

// Waiter is an entry of the queue as the scripts return it.
type Waiter struct {
	ID, Reason string
	Weight     int
	Since      time.Time     // by the store's clock
	Silent     time.Duration // since the last poll
}

// State is the reply of Snapshot: a part of a state, or parts put together.
type State struct {
	Kind     string
	Capacity int
	Last     uint64
	Marked   time.Duration // the rest of the mark; 0 if there is none
	MarkedBy Holder        // what has set it, if that is known; without TTL
	Holders  []Holder      // by token
	Waiters  []Waiter      // in queue order
	Dead     []Waiter      // in queue order: those that are silent for WaiterLife
	Rest     *Snapshot     // for the next part; nil if the state is complete
}

// Snapshot makes the call.
func (s *Set) Snapshot(k Keys, a Snapshot) Call {
	return s.snapshot.call(k, a.Most, cmp.Or(a.score, "1"), a.passed)
}

// Read reads the reply.
func (a Snapshot) Read(reply any) (State, error) {
	r := readReply(reply)
	now := r.number()
	var s State
	s.Kind, s.Capacity = kind(r.text())
	s.Last = r.token()
	holders, waiters := r.list(), r.list()
	s.Marked = micros(max(0, r.number()-now))
	if a.score, a.passed = r.text(), r.number(); a.score != "" {
		s.Rest = &a
	}
	if by := r.list(); len(by.rest) > 0 {
		s.MarkedBy = holder(s.Capacity, s.Last, by.text(), by.text(), 0)
		s.MarkedBy.Breaking = false
	}
	s.Holders = holders.holders(now, s.Capacity, s.Last)
	slices.SortFunc(s.Holders, byToken)
	for len(waiters.rest) > 0 {
		id, info := waiters.text(), waiters.text()
		n, reason := fields(info, 6) // seen since weight ttl reserve mark
		w := Waiter{ID: id, Weight: int(n[2]), Since: time.UnixMicro(n[1]), Silent: micros(now - n[0]), Reason: reason}
		if w.Silent < a.WaiterLife {
			s.Waiters = append(s.Waiters, w)
		} else {
			s.Dead = append(s.Dead, w)
		}
	}
	return s, cmp.Or(r.err, holders.err, waiters.err)
}

// Join joins the parts of a state, in the order in which they were read. Between two parts a waiter
// may be granted, a lease renewed, and a lease of capacity 1 granted to another holder: the latest
// part counts.
func Join(parts []State) State {
	s := parts[len(parts)-1]
	if len(parts) == 1 {
		return s
	}
	seen := make(map[string]bool)
	if s.Capacity > 1 {
		s.Holders = nil
		for _, part := range slices.Backward(parts) {
			s.Holders = append(s.Holders, unseen(seen, part.Holders, func(h Holder) string { return h.ID })...)
		}
		slices.SortFunc(s.Holders, byToken)
	} else {
		unseen(seen, s.Holders, func(h Holder) string { return h.ID })
	}
	s.Waiters, s.Dead = nil, nil
	for _, part := range parts {
		s.Waiters = append(s.Waiters, unseen(seen, part.Waiters, func(w Waiter) string { return w.ID })...)
	}
	for _, part := range parts { // of these, one may have polled since
		s.Dead = append(s.Dead, unseen(seen, part.Dead, func(w Waiter) string { return w.ID })...)
	}
	return s
}

// unseen returns those whose IDs were not seen before.
func unseen[T any](seen map[string]bool, all []T, id func(T) string) []T {
	return slices.DeleteFunc(all, func(one T) bool {
		before := seen[id(one)]
		seen[id(one)] = true
		return before
	})
}

func byToken(a, b Holder) int { return cmp.Compare(a.Token, b.Token) }
