package quorum

import (
	"strconv"

	"github.com/holdfast-go/holdfast/engine"
)

// Clients is how many clients an engine knows.
func Clients(e *Engine) int {
	e.calls.mu.Lock()
	defer e.calls.mu.Unlock()
	return len(e.calls.clients)
}

// Attempts is how many attempts an engine keeps, and of how many more it remembers how
// they ended.
func Attempts(e *Engine) (kept, ended int) {
	e.attempts.mu.Lock()
	defer e.attempts.mu.Unlock()
	return len(e.attempts.all), len(e.attempts.ended.order)
}

// FillEnded ends as many holder IDs as an engine remembers.
func FillEnded(e *Engine) {
	e.attempts.mu.Lock()
	defer e.attempts.mu.Unlock()
	for i := range mostEnded {
		e.attempts.ended.add(key{id: strconv.Itoa(i)}, engine.CauseReleased)
	}
}

// MostEnded is how many ended holder IDs an engine remembers.
const MostEnded = mostEnded
