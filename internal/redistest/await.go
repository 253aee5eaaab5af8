package redistest

import (
	"testing"
	"time"
)

// Await checks cond every 10 ms until it holds. The test fails if it does not within the limit; a
// check in progress at the limit is completed. It is for events without a signal, such as a
// change of a server's state.
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
