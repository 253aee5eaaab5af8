package virtual

import (
	"testing"
	"testing/synctest"
	"time"
)

// A ballot was sent when the first of its requests was; a request that restores its lease on a node is not a ballot.
func TestWhenABallotWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r requests
		var first time.Time
		for _, c := range []struct {
			id    string
			first bool
		}{{"h~1", true}, {"h~1", false}, {"g~2", false}, {"h~1~3", false}, {"h~4", true}, {"h~4~5", false}, {"h~4", false}} {
			time.Sleep(time.Second)
			r.note(c.id)
			if c.first {
				first = time.Now()
			}
			if got := r.latest("h"); !got.Equal(first) {
				t.Errorf("after %s the ballot was sent at %v, want %v", c.id, got, first)
			}
		}
	})
}
