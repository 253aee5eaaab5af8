package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A majority grants, and one of it hangs before the release. The node whose answer
// to the request comes last takes its place: the minority that hangs is a minority still.
func TestReleaseCountsTheNodeThatGrantedLast(t *testing.T) {
	const late = 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.nodes[0].set(hung)
		c.nodes[3].slow(0, late)
		held := c.hold(t, "mine.a")
		synctest.Wait() // all have been asked
		c.nodes[1].set(hung)
		start := time.Now()
		if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: held, Mark: time.Hour}); err != nil {
			t.Errorf("two of five nodes hang, and Release said %v", err)
		}
		if took := time.Since(start); took > 2*late {
			t.Errorf("the release took %v, the slowest of the nodes that answer %v", took, late)
		}
		if a, err := c.Acquire(t.Context(), asks("other.b")); err != nil || a.Status != engine.Marked {
			t.Errorf("after a release with a mark: %+v, %v", a, err)
		}
		c.Leave("mine")
		c.Leave("other")
		<-time.After(time.Minute) // what is under way ends by its own bounds
	})
}

// A node that refuses late has nothing to give back, and does not stand for one that
// has.
func TestReleaseDoesNotCountANodeThatRefusedLast(t *testing.T) {
	const late = 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.occupy(t, func(i int) bool { return i == 3 })
		c.nodes[0].set(hung)
		c.nodes[3].slow(0, late)
		held := c.hold(t, "mine.a")
		synctest.Wait() // all have been asked
		c.nodes[1].set(hung)
		call, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Release(call, engine.Release{Resource: stock, Held: held, Mark: time.Hour})
		if err == nil {
			t.Error("two nodes of five have confirmed the mark, and Release said yes")
		}
		c.Leave("mine")
		<-time.After(time.Minute) // what is under way ends by its own bounds
	})
}
