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
	stamp uint64
	at    time.Time
}

// with returns the sightings after a document that has just arrived and has been the present
// one for age, at least. s may be nil.
func (s *sightings) with(d *document, age time.Duration) *sightings {
	if s == nil {
		s = &sightings{}
	}
	made := time.Now().Add(-age)
	next := &sightings{
		leases:  make(map[string]sighting, len(d.state.Holders)),
		waiters: make(map[string]time.Time, len(d.state.Waiters)),
	}
	for i, h := range d.state.Holders {
		seen, ok := s.leases[h.ID]
		if !ok || seen.stamp != d.stamps[i] {
			seen = sighting{stamp: d.stamps[i], at: made.Add(-translate.Duration(d.ages[i]))}
		}
		next.leases[h.ID] = seen
	}
	for _, w := range d.state.Waiters {
		at, ok := s.waiters[w.ID]
		if !ok {
			at = made
		}
		next.waiters[w.ID] = at
	}
	return next
}

// age returns for how long a stamp of a lease has been known: not at all, if another document
// was seen meanwhile.
func (s *sightings) age(holderID string, stamp uint64) queue.Time {
	seen := s.leases[holderID]
	if seen.stamp != stamp || seen.at.IsZero() {
		return 0
	}
	return time.Since(seen.at).Microseconds()
}
