package cas

import (
	"time"

	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// sightings are since when this process knows of what a document contains, by its monotonic
// clock. They are the time on a store without a clock. They never change.
type sightings struct {
	leases  map[string]sighting // by holder ID
	waiters map[string]time.Time
}

type sighting struct {
	stamp   uint64
	at      time.Time
	foreign string // a witness beside the stamp that is of another store; "" if none is known
}

// with returns the sightings after a document that has just arrived and has been the present one for
// age, at least. What is not in s may be in the sightings of another reader. Both may be nil.
func (s *sightings) with(d *document, age time.Duration, others *sightings) *sightings {
	made := time.Now().Add(-age)
	next := &sightings{
		leases:  make(map[string]sighting, len(d.state.Holders)),
		waiters: make(map[string]time.Time, len(d.state.Waiters)),
	}
	for i, h := range d.state.Holders {
		is, ok := s.lease(h.ID, d.stamps[i])
		if !ok {
			is, ok = others.lease(h.ID, d.stamps[i])
		}
		if !ok {
			is = sighting{stamp: d.stamps[i], at: made.Add(-translate.Duration(d.ages[i]))}
		}
		next.leases[h.ID] = is
	}
	for _, w := range d.state.Waiters {
		at, ok := s.waiter(w.ID)
		if !ok {
			at, ok = others.waiter(w.ID)
		}
		if !ok {
			at = made
		}
		next.waiters[w.ID] = at
	}
	return next
}

// lease returns the sighting of a stamp of a lease.
func (s *sightings) lease(holderID string, stamp uint64) (is sighting, ok bool) {
	if s != nil {
		is, ok = s.leases[holderID]
	}
	return is, ok && is.stamp == stamp
}

// waiter returns when a waiter was first seen.
func (s *sightings) waiter(id string) (at time.Time, ok bool) {
	if s != nil {
		at, ok = s.waiters[id]
	}
	return at, ok
}

// age returns for how long a stamp of a lease has been known at an instant: not at all, if another
// document was seen meanwhile.
func (s *sightings) age(holderID string, stamp uint64, at time.Time) queue.Time {
	is, ok := s.lease(holderID, stamp)
	if !ok {
		return 0
	}
	return max(0, at.Sub(is.at).Microseconds())
}
