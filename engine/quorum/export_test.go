package quorum

import (
	"strconv"

	"github.com/holdfast-go/holdfast/engine"
)

// Clients is of how many clients an engine has calls.
func Clients(e *Engine) int {
	e.dispatcher.mu.Lock()
	defer e.dispatcher.mu.Unlock()
	return len(e.dispatcher.clients)
}

// Attempts is how many attempts an engine keeps, and of how many more it remembers how
// they ended.
func Attempts(e *Engine) (kept, ended int) {
	e.attempts.mu.Lock()
	defer e.attempts.mu.Unlock()
	return len(e.attempts.all), len(e.attempts.tombstones.order)
}

// FillEnded ends as many holder IDs as an engine remembers.
func FillEnded(e *Engine) {
	e.attempts.mu.Lock()
	defer e.attempts.mu.Unlock()
	for i := range maxTombstones {
		e.attempts.tombstones.add(attemptKey{id: strconv.Itoa(i)}, engine.CauseReleased)
	}
}

// MostEnded is how many ended holder IDs an engine remembers.
const MostEnded = maxTombstones
