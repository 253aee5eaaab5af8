package quorum

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// tombstoneTTL is how long an engine keeps the cause by which a holder ID ended.
	tombstoneTTL = 10 * time.Minute
	// maxTombstones is the maximum number of tombstones that an engine keeps.
	maxTombstones = 1 << 16
	// sweepInterval is how often the expired attempts are removed, at least.
	sweepInterval = time.Minute
)

// attemptKey identifies an attempt.
type attemptKey struct {
	resource engine.Resource
	id       string
}

// attempts are the holder IDs of this process.
type attempts struct {
	mu         sync.Mutex
	all        map[attemptKey]*attemptState
	sweepAt    int       // number of attempts at which the expired ones are removed
	swept      time.Time // when they were removed last
	tombstones tombstones

	turns sync.Map // turns of waiting attempts, by their IDs on the nodes
}

func (g *attempts) find(k attemptKey) *attemptState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all[k]
}

// findOrCreate returns an attempt, or a new one if there is none. Of an attempt that has ended
// only the cause is set.
func (g *attempts) findOrCreate(k attemptKey) *attemptState {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if a := g.all[k]; a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.used = now
		return a
	}
	a := &attemptState{attemptKey: k, busy: make(chan struct{}, 1), cause: g.tombstones.cause(k), used: now}
	if a.cause != 0 {
		return a
	}
	if len(g.all) >= g.sweepAt || now.Sub(g.swept) > sweepInterval {
		g.sweep(now)
	}
	g.all[k] = a
	return a
}

// sweep removes the expired attempts. A tombstone remains of each that had a lease or was ended. The
// mutex is held.
func (g *attempts) sweep(now time.Time) {
	maps.DeleteFunc(g.all, func(k attemptKey, a *attemptState) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		expired, cause := a.isExpired(now)
		if expired && a.turn != nil {
			g.turns.Delete(a.turn.held.ID)
		}
		if expired && cause != 0 {
			g.tombstones.add(k, cause)
		}
		return expired
	})
	g.sweepAt, g.swept = 2*len(g.all)+64, now
}

// remove removes an attempt. If it has ended, a tombstone remains.
func (g *attempts) remove(a *attemptState, cause engine.Cause) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all[a.attemptKey] == a {
		delete(g.all, a.attemptKey)
	}
	if cause != 0 {
		g.tombstones.add(a.attemptKey, cause)
	}
}

// tombstone returns the cause by which a holder ID ended; 0 if there is no tombstone.
func (g *attempts) tombstone(k attemptKey) engine.Cause {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tombstones.cause(k)
}

// tombstones are the causes by which holder IDs of this process ended. Nothing else is kept of
// them, since an outage ends thousands of attempts. Each is kept for tombstoneTTL. Above
// maxTombstones the oldest is removed earlier: if this process then repeats its Acquire, that is
// a new attempt instead of ErrEnded. The nodes refuse the old ballots in any case.
type tombstones struct {
	seed   maphash.Seed
	causes map[uint64]engine.Cause // by the hash of the key
	order  []tombstone             // the oldest first
}

// tombstone is the end of the time for which a cause is kept.
type tombstone struct {
	hash  uint64
	until int64 // in Unix seconds
}

// add records how a holder ID ended, once.
func (s *tombstones) add(k attemptKey, c engine.Cause) {
	now := time.Now()
	for len(s.order) > 0 && (len(s.order) >= maxTombstones || s.order[0].until < now.Unix()) {
		delete(s.causes, s.order[0].hash)
		s.order = s.order[1:]
	}
	h := maphash.Comparable(s.seed, k)
	if _, known := s.causes[h]; known {
		return
	}
	s.causes[h] = c
	s.order = append(s.order, tombstone{h, now.Add(tombstoneTTL).Unix()})
}

// cause returns the cause by which a holder ID ended; 0 if there is no tombstone.
func (s *tombstones) cause(k attemptKey) engine.Cause {
	return s.causes[maphash.Comparable(s.seed, k)]
}
