package check

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Finding is something that a run left behind: a holder, a waiter, a key without
// a TTL, a goroutine. The caller of the run collects findings after its end.
type Finding struct {
	Resource string        `json:"resource,omitempty"`
	What     string        `json:"what"`
	At       time.Duration `json:"at"`
}

// Leftovers: nothing is left behind. It does not use the history.
func Leftovers(found []Finding) Check {
	return Check{"leftovers", func([]history.Op) []Violation {
		var out []Violation
		for _, f := range found {
			out = append(out, Violation{"leftovers", f.Resource, f.At, f.What})
		}
		return out
	}}
}
