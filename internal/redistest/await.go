package redistest

import (
	"testing"
	"time"
)

// Await calls cond every 10 ms until it returns true. The test fails if cond does not hold within
// the limit; a call in progress at the limit is completed. Use Await for events without a signal,
// such as a change of a server's state.
func Await(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in %v: %s", limit, what)
		}
	}
}
