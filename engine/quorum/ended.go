package quorum

import (
	"hash/maphash"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// mostEnded is how many ended holder IDs an engine remembers.
const mostEnded = 1 << 16

// endings is how holder IDs of this process ended, without anything else about them: an
// outage ends thousands of attempts. Each is remembered for the time called memory. Above
// mostEnded the oldest is dropped before its time: a copy of its Acquire that this process
// makes later is then a new attempt instead of ErrEnded. The nodes refuse the old tries
// in any case.
type endings struct {
	seed  maphash.Seed
	cause map[uint64]engine.Cause // by the hash of the key
	order []ending                // the oldest first
}

// ending is when to forget a holder ID.
type ending struct {
	hash  uint64
	until int64 // in Unix seconds
}

// add notes how a holder ID ended, once.
func (s *endings) add(k key, c engine.Cause) {
	if s.cause == nil {
		s.seed, s.cause = maphash.MakeSeed(), make(map[uint64]engine.Cause)
	}
	now := time.Now()
	for len(s.order) > 0 && (len(s.order) >= mostEnded || s.order[0].until < now.Unix()) {
		delete(s.cause, s.order[0].hash)
		s.order = s.order[1:]
	}
	h := maphash.Comparable(s.seed, k)
	if _, known := s.cause[h]; known {
		return
	}
	s.cause[h] = c
	s.order = append(s.order, ending{h, now.Add(memory).Unix()})
}

// of returns how a holder ID ended; 0 if that is not known.
func (s *endings) of(k key) engine.Cause {
	if len(s.cause) == 0 {
		return 0
	}
	return s.cause[maphash.Comparable(s.seed, k)]
}
