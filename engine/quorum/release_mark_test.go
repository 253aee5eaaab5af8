package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A node that refused the lease confirms its release as if it had been released before, but sets no
// mark, so it does not count for the mark. The node that had the lease and does not answer is
// needed.
func TestANodeThatRefusedDoesNotMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		other := acquireOn(t, c.nodes[0].Engine, "other.a")
		time.Sleep(time.Second)
		mine := c.mustAcquire(t, "mine.a")
		time.Sleep(time.Second) // the token of the next lease there is above mine
		releaseOn(t, c.nodes[0].Engine, other)
		acquireOn(t, c.nodes[0].Engine, "other.b")
		c.nodes[1].set(hung)
		c.wantNoMark(t, mine)
	})
}

// A node that was down at the grant also confirms the release if it has granted other leases since,
// but sets no mark.
func TestANodeThatWasDownDoesNotMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		releaseOn(t, c.nodes[0].Engine, acquireOn(t, c.nodes[0].Engine, "other.a"))
		time.Sleep(time.Second)
		c.nodes[0].set(dead)
		c.mustRelease(t, c.mustAcquire(t, "mine.a"))
		mine := c.mustAcquire(t, "mine.b") // the first is left out
		time.Sleep(time.Second)
		c.nodes[0].set(healthy)
		acquireOn(t, c.nodes[0].Engine, "other.b")
		c.nodes[1].set(hung)
		time.Sleep(5 * time.Second) // the first node is called again
		c.wantNoMark(t, mine)
	})
}

// acquireOn acquires on one node, and releaseOn releases there.
func acquireOn(t *testing.T, node engine.Engine, id string) engine.Held {
	t.Helper()
	a, err := node.Acquire(t.Context(), mutexRequest(id))
	if err != nil || a.Status != engine.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	return engine.Held{ID: id, Token: a.Token}
}

func releaseOn(t *testing.T, node engine.Engine, h engine.Held) {
	t.Helper()
	if err := node.Release(t.Context(), engine.Release{Resource: stock, Held: h}); err != nil {
		t.Fatal(err)
	}
}

// wantNoMark releases a lease with a mark, while the second node hangs and the first does not have
// the lease. It checks that the release is not confirmed.
func (c *cluster) wantNoMark(t *testing.T, h engine.Held) {
	t.Helper()
	call, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := c.Release(call, engine.Release{Resource: stock, Held: h, Mark: time.Hour})
	if !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("the mark is on one node of three, and Release said %v", err)
	}
	c.nodes[1].set(healthy)
	c.Leave(engine.ClientOf(h.ID))
	<-time.After(time.Minute) // what is under way ends by its own bounds
}
