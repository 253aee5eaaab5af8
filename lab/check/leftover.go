package check

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Finding is something that a run left behind: a holder, a waiter, a key without
// a TTL, a goroutine. Whoever ran it looks after everything should be gone.
type Finding struct {
	Resource string        `json:"resource,omitempty"`
	What     string        `json:"what"`
	At       time.Duration `json:"at"`
}

// Leftovers: nothing is left behind. The history has no say in it.
func Leftovers(found []Finding) Check {
	return Check{"leftovers", func([]history.Op) []Violation {
		var out []Violation
		for _, f := range found {
			out = append(out, Violation{"leftovers", f.Resource, f.At, f.What})
		}
		return out
	}}
}
