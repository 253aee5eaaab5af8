package check

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Signals: who waits for a condition when a Signal is called under the mutex goes on within bound of its return. It is for times without
// faults.
func Signals(bound time.Duration) Check {
	return Check{"signals", func(ops []history.Op) (out []Violation) {
		for _, s := range inOrder(ops, history.Signal) {
			if s.Outcome != history.OK {
				continue
			}
			for _, w := range inOrder(ops, history.Wait) {
				if w.Resource == s.Resource && w.Call < s.Call && w.Return > s.Return+bound {
					out = append(out, Violation{"signals", s.Resource, s.Return,
						fmt.Sprintf("%s waited from %v to %v, although %s woke all at %v", w.Client, w.Call, w.Return, s.Client, s.Return)})
				}
			}
		}
		return out
	}}
}
