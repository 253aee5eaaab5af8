package holdfast

import (
	"math"
	"strconv"
	"strings"
)

const (
	// historyWriters is how many writers of events a reader distinguishes. Those of which it has read nothing
	// for longest are forgotten.
	historyWriters = 10_000
	// historyGap is how many events of a writer may be missing between two others.
	historyGap = 100_000
)

// seenEvents are the IDs of the events that a reader has seen, by writer. An event is in the store more than once if
// a reply was lost, and on a quorum once for each node, which may be far behind the others.
type seenEvents map[string]*seenNumbers

// seenNumbers are the numbers from low to high, without those that are missing.
type seenNumbers struct {
	low, high uint64
	missing   map[uint64]bool
	fresh     bool // there was an event since the last forget
}

// add reports whether an ID, "writer.number", is new. It returns false for what is no ID.
func (s seenEvents) add(id string) bool {
	writer, text, _ := strings.Cut(id, ".")
	n, err := strconv.ParseUint(text, 36, 64)
	if err != nil || n == 0 || n == math.MaxUint64 {
		return false
	}
	w := s[writer]
	if w == nil {
		if len(s) >= historyWriters {
			s.forget()
		}
		w = &seenNumbers{low: n, high: n - 1, missing: make(map[uint64]bool)}
		s[writer] = w
	}
	w.fresh = true
	switch {
	case n > w.high:
		w.miss(w.high+1, n)
		w.high = n
	case n < w.low:
		w.miss(n+1, w.low)
		w.low = n
	case !w.missing[n]:
		return false
	}
	delete(w.missing, n)
	return true
}

// miss records that the numbers from first to before were not seen.
func (w *seenNumbers) miss(first, before uint64) {
	if before-first > historyGap {
		return
	}
	for n := first; n < before; n++ {
		w.missing[n] = true
	}
}

// forget removes the writers of which nothing was read since the last call.
func (s seenEvents) forget() {
	for id, w := range s {
		if !w.fresh {
			delete(s, id)
		}
		w.fresh = false
	}
}
