package redistest

import (
	"testing"
	"time"
)

// Await looks again and again until cond holds, every 10 ms. The test fails if it
// does not within the limit. It is for what tells nobody when it happens, such as
// the state of a server; a look that is under way at the limit is waited for.
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
