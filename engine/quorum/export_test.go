package quorum

import (
	"strconv"

	"github.com/holdfast-go/holdfast/engine"
)

// Clients returns the number of clients of which an engine has calls.
func Clients(e *Engine) int {
	e.dispatcher.mu.Lock()
	defer e.dispatcher.mu.Unlock()
	return len(e.dispatcher.clients)
}

// Attempts returns how many attempts an engine keeps, and how many tombstones.
func Attempts(e *Engine) (kept, ended int) {
	e.attempts.mu.Lock()
	defer e.attempts.mu.Unlock()
	return len(e.attempts.all), len(e.attempts.tombstones.order)
}

// FillEnded fills an engine with the maximum number of tombstones.
func FillEnded(e *Engine) {
	e.attempts.mu.Lock()
	defer e.attempts.mu.Unlock()
	for i := range maxTombstones {
		e.attempts.tombstones.add(attemptKey{id: strconv.Itoa(i)}, engine.CauseReleased)
	}
}

// MostEnded is the maximum number of tombstones.
const MostEnded = maxTombstones

// SpreadDelay is after what time a lease is requested on the spares of its ballot.
const SpreadDelay = spreadDelay
