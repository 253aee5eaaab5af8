package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A latch is set, counted down and waited for while a node is away.
func TestLatchWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.nodes[2].set(dead)
		client := open(t, c)
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		latch := client.Latch("parts")
		for range 2 { // the second round finds the mark of the first
			if set, err := latch.TrySet(ctx, 1); !set || err != nil {
				t.Fatalf("TrySet: %v, %v", set, err)
			}
			if set, err := latch.TrySet(ctx, 1); set || err != nil {
				t.Errorf("TrySet of a latch that is set: %v, %v", set, err)
			}
			if n, err := latch.Count(ctx); n != 1 || err != nil {
				t.Errorf("Count: %d, %v", n, err)
			}
			waited := make(chan error, 1)
			go func() { waited <- latch.Wait(ctx) }()
			if err := latch.CountDown(ctx); err != nil {
				t.Errorf("CountDown: %v", err)
			}
			if err := <-waited; err != nil {
				t.Errorf("Wait: %v", err)
			}
		}
	})
}
