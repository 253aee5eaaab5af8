package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A release that no majority confirmed is tried again. A node that had the lease and
// is left out now does not count as one that never had it.
func TestReleaseAgainWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		release := func(h engine.Held) error {
			call, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return c.Release(call, engine.Release{Resource: stock, Held: h})
		}
		c.nodes[2].set(dead)
		c.give(t, c.hold(t, "mine.a"))
		held := c.hold(t, "mine.b") // the third is left out
		c.nodes[2].set(healthy)
		c.nodes[0].set(hung)
		c.nodes[1].set(hung)
		if err := release(held); !errors.Is(err, engine.ErrUnavailable) {
			t.Fatalf("no node has confirmed, and Release said %v", err)
		}
		c.nodes[1].set(healthy)
		time.Sleep(3 * time.Second)
		if err := release(held); err != nil {
			t.Errorf("the release again: %v", err)
		}
		c.nodes[0].set(healthy)
		c.Leave("mine")
		time.Sleep(time.Minute) // what is under way ends by its own bounds
	})
}
