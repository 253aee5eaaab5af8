package quorum

import (
	"strconv"

	"github.com/holdfast-go/holdfast/engine"
)

// Crews is how many clients an engine knows.
func Crews(e *Engine) int {
	e.crews.mu.Lock()
	defer e.crews.mu.Unlock()
	return len(e.crews.all)
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
