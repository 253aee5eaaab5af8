package script

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Snapshot is the arguments of the script.
type Snapshot struct {
	// WaiterLife is how long a waiter counts after it last asked.
	WaiterLife time.Duration
}

// Waiter is an entry of the queue as the scripts describe it.
type Waiter struct {
	ID, Reason string
	Weight     int
	Since      time.Time // by the store's clock
}

// State is the reply of Snapshot.
type State struct {
	Kind     string
	Capacity int
	Last     uint64
	Marked   time.Duration // left of the mark; 0 if there is none
	Holders  []Holder      // by token
	Waiters  []Waiter      // in queue order
}

// Snapshot makes the call.
func (s *Set) Snapshot(k Keys, _ Snapshot) Call { return s.snapshot.call(k) }

// Read reads the reply.
func (a Snapshot) Read(reply any) (State, error) {
	r := read(reply)
	now := r.number()
	var s State
	s.Kind, s.Capacity = kind(r.text())
	s.Last = r.token()
	holders, waiters := r.list(), r.list()
	s.Marked = micros(max(0, r.number()-now))
	for len(holders.rest) > 0 {
		id, deadline, info := holders.text(), holders.text(), holders.text()
		until, err := strconv.ParseInt(deadline, 10, 64)
		if err != nil {
			holders.fail(deadline)
		}
		s.Holders = append(s.Holders, holder(s.Capacity, s.Last, id, info, micros(until-now)))
	}
	slices.SortFunc(s.Holders, func(a, b Holder) int { return cmp.Compare(a.Token, b.Token) })
	for len(waiters.rest) > 0 {
		id, info := waiters.text(), waiters.text()
		n, reason := fields(info, 6) // seen since weight ttl reserve mark
		if n[0]+a.WaiterLife.Microseconds() > now {
			s.Waiters = append(s.Waiters, Waiter{ID: id, Weight: int(n[2]), Since: time.UnixMicro(n[1]), Reason: reason})
		}
	}
	for _, err := range []error{r.err, holders.err, waiters.err} {
		if err != nil {
			return State{}, err
		}
	}
	return s, nil
}
