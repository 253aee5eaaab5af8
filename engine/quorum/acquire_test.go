package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// The answers of all nodes are lost. The attempt is repeated after the fault and granted.
func TestRetryAfterAllAnswersWereLost(t *testing.T) {
	for _, pause := range []time.Duration{0, 5 * time.Millisecond, 100 * time.Millisecond, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			for _, n := range c.nodes {
				n.set(replyless)
			}
			call, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			if a, err := c.Acquire(call, mutexRequest("mine.a")); err == nil {
				t.Fatalf("got %+v, want no answer", a)
			}
			cancel()
			for _, n := range c.nodes {
				n.set(healthy)
			}
			time.Sleep(pause)
			a, err := c.Acquire(t.Context(), mutexRequest("mine.a"))
			if err != nil || a.Status != engine.Granted {
				t.Errorf("repeated after %v, without another client: %+v %v", pause, a, err)
			}
			c.Leave("mine")
			<-time.After(time.Minute)
		})
	}
}
