package live

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/ledger"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// rollBack is a loss of the latest writes: a store was killed and restarted from an older copy of its data.
//
// On one store, what was acknowledged before the copy was made is kept, until the deadline that it had then; what was
// written after it is lost. So a lease that was granted before excludes others until the end of the trust window that its
// client had then, and beyond it if a renewal reached the restored store. Of a lease that was granted later nothing is promised but
// fencing. A quorum, of which a node is kept out of service for longer than the longest lease, excludes as before.
type rollBack struct {
	from, until time.Duration // the copy was made in this time
	at          time.Duration // the store was killed before
	below       uint64        // the store's clock of that moment, as of wipe
}

// copier makes the copies of a store, and restores them. It is a fault.Copier.
type copier struct {
	store *store
	now   func() time.Duration
	// loses is set in a control: the store loses all that it had, also what is in the copy.
	loses bool
}

// Copy implements fault.Copier. It does nothing if the store is down already.
func (c copier) Copy() (bool, error) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return false, nil
	}
	from := c.now()
	err := s.server.(stores.Copier).Copy()
	s.copy = rollBack{from: from, until: c.now()}
	return true, err
}

// Restore implements fault.Copier. It does nothing if there is no copy.
func (c copier) Restore() (bool, error) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copy == (rollBack{}) {
		return false, nil
	}
	s.server.Kill()
	s.down = true
	roll := s.copy
	roll.at, roll.below = c.now(), s.micros()
	s.rolls = append(s.rolls, roll)
	if c.loses {
		return true, s.server.(stores.Emptier).Empty()
	}
	return true, s.server.(stores.Copier).Restore()
}

// Rolled counts the leases that clients relied on when a single store was rolled back.
type Rolled struct {
	Kept int `json:"kept,omitempty"` // they were in the copy, and excluded others
	Lost int `json:"lost,omitempty"` // they were not, or may not have been
}

func (n *Rolled) add(more Rolled) { n.Kept, n.Lost = n.Kept+more.Kept, n.Lost+more.Lost }

// setBack returns a release by wiper for each lease that a single store may have lost when it was rolled back, at the
// instant from which it may have been without it. Named reports when the store first had the ID of a lease, as a waiter or a holder: a lease
// of which it had not when it was copied is certainly lost.
func setBack(ops []history.Op, ttl time.Duration, b rollBack, named func(resource, store string) (time.Duration, bool)) (out []history.Op, n Rolled) {
	type lease struct{ resource, store string }
	of := map[string]lease{} // by holder
	granted, until, renewed, over := map[lease]time.Duration{}, map[lease]time.Duration{}, map[lease]bool{}, map[string]bool{}
	for _, op := range ops {
		if op.Kind == history.Acquire && op.Outcome == history.OK {
			l := lease{op.Resource, op.Store}
			of[op.Holder] = l
			if at, known := granted[l]; !known || op.Return < at {
				granted[l] = op.Return
			}
		}
	}
	for _, op := range ops {
		l, known := of[op.Holder]
		switch {
		case !known:
		case op.Kind == history.Release && op.Outcome == history.OK && op.Return < b.at:
			over[op.Holder] = true
		case op.Outcome != history.OK || op.Until == 0 || op.Kind != history.Acquire && op.Kind != history.Renew:
		case op.Return <= b.from:
			until[l] = max(until[l], op.Until)
		case op.Kind == history.Renew && op.Until-ttl+ledger.Margin(ttl) > b.at: // it was sent to the restored store
			renewed[l] = true
		}
	}
	for _, op := range ops {
		if op.Kind != history.Acquire || op.Outcome != history.OK || op.Token > b.below || over[op.Holder] {
			continue
		}
		l := of[op.Holder]
		open := op.Return <= b.at && reliedAt(ops, op.Holder, b.at)
		gone := op
		gone.Client, gone.Kind, gone.Until, gone.Note, gone.Outcome = wiper, history.Release, 0, "rolled back", history.Unknown
		switch first, seen := named(op.Resource, op.Store); {
		case granted[l] <= b.from && renewed[l]:
			if open {
				n.Kept++
			}
			continue
		case granted[l] <= b.from:
			gone.Call = max(b.at, until[l])
		case seen && first > b.until && first <= b.at:
			gone.Call, gone.Outcome = b.at, history.OK
		default:
			gone.Call = b.at
		}
		if open && gone.Call > b.at {
			n.Kept++
		} else if open {
			n.Lost++
		}
		gone.Return = gone.Call
		out = append(out, gone)
	}
	return out, n
}

// restored reports whether a lease may be from the copy with which the store was rolled back: its release is lost, so it stays until its
// deadline, which can be the default TTL away for one of Client.Once.
func (s *store) restored(x leftBehind) bool {
	return !x.waiting && slices.ContainsFunc(s.rolls, func(b rollBack) bool { return x.token <= b.below })
}

// reliedAt reports whether a client still relied on a lease at an instant, by its trust window.
func reliedAt(ops []history.Op, holder string, at time.Duration) bool {
	until := time.Duration(0)
	for _, op := range ops {
		switch {
		case op.Holder != holder:
		case op.Kind == history.Acquire || op.Kind == history.Renew:
			if op.Return <= at {
				until = max(until, op.Until)
			}
		case (op.Kind == history.Release || op.Kind == history.Lost || op.Kind == history.Leave) && op.Call <= at && op.Client != wiper:
			return false
		}
	}
	return until > at
}

// rolledBack reports whether a store was rolled back, and whether one may have lost what happened in a time.
func (r *run) rolledBack(from, to time.Duration) bool {
	return slices.ContainsFunc(r.stores, func(s *store) bool {
		return slices.ContainsFunc(s.rolls, func(b rollBack) bool { return to >= b.from && from <= b.at })
	})
}

// marked removes the runs of slots of which the mark may have been lost. A mark that was confirmed before the copy was made
// is in it.
func (r *run) marked(ops []history.Op) []history.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return op.Kind == history.Run && r.rolledBack(op.Call, op.Return) })
}
