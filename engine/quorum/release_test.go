package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// A release that no majority confirmed is repeated. A node that had the lease and is not called now
// does not count as a node without the lease.
func TestReleaseIsRepeatedWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		release := func(h engine.Held) error {
			call, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return c.Release(call, engine.Release{Resource: stock, Held: h})
		}
		c.nodes[2].set(dead)
		c.mustRelease(t, c.mustAcquire(t, "mine.a"))
		held := c.mustAcquire(t, "mine.b") // the third is left out
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

// A majority grants, and one node of it hangs before the release. The node whose answer to the
// request comes last counts instead: the minority that hangs is still a minority.
func TestReleaseCountsTheNodeThatGrantedLast(t *testing.T) {
	const late = 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.nodes[0].set(hung)
		c.nodes[3].slow(0, late)
		held := c.mustAcquire(t, "mine.a")
		synctest.Wait() // all have been called
		c.nodes[1].set(hung)
		start := time.Now()
		if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: held, Mark: time.Hour}); err != nil {
			t.Errorf("two of five nodes hang, and Release said %v", err)
		}
		if took := time.Since(start); took > 2*late {
			t.Errorf("the release took %v, the slowest of the nodes that answer %v", took, late)
		}
		if a, err := c.Acquire(t.Context(), mutexRequest("other.b")); err != nil || a.Status != engine.Marked {
			t.Errorf("after a release with a mark: %+v, %v", a, err)
		}
		c.Leave("mine")
		c.Leave("other")
		<-time.After(time.Minute) // what is under way ends by its own bounds
	})
}

// A node that refuses late has nothing to release, and does not count in place of one that has.
func TestReleaseDoesNotCountANodeThatRefusedLast(t *testing.T) {
	const late = 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		c.occupy(t, func(i int) bool { return i == 3 })
		c.nodes[0].set(hung)
		c.nodes[3].slow(0, late)
		held := c.mustAcquire(t, "mine.a")
		synctest.Wait() // all have been called
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

// leaseBeingRestored returns a lease that is being restored on the last node, which did not
// have it: the node has done it, and its answer is on its way for 10 ms more.
func (c *cluster) leaseBeingRestored(t *testing.T) engine.Held {
	t.Helper()
	last := c.nodes[len(c.nodes)-1]
	holder := func() engine.Held {
		t.Helper()
		s, err := last.Engine.Snapshot(t.Context(), stock)
		if err != nil || len(s.Holders) != 1 {
			t.Fatalf("got %+v, %v, want one holder", s, err)
		}
		return engine.Held{ID: s.Holders[0].ID, Token: s.Holders[0].Token}
	}
	c.occupy(t, func(i int) bool { return c.nodes[i] == last })
	held := c.mustAcquire(t, "mine.a")
	synctest.Wait()
	if err := last.Engine.Release(t.Context(), engine.Release{Resource: stock, Held: holder()}); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Second) // tokens are above that of the other's
	last.slow(0, 20*time.Millisecond)
	if err := c.renew(t, held); err != nil {
		t.Fatal(err)
	}
	<-time.After(30 * time.Millisecond) // a renewal there and back, and the request there
	holder()
	return held
}

func TestReleaseCountsANodeThatIsRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		held := c.leaseBeingRestored(t)
		c.nodes[1].set(dead)
		start := time.Now()
		c.mustRelease(t, held)
		if took := time.Since(start); took > 30*time.Millisecond {
			t.Errorf("the release took %v", took)
		}
		c.nodes[1].set(healthy)
		c.Leave("mine")
		<-time.After(time.Minute) // what is under way ends by its own bounds
	})
}

// A release with a mark comes while a node restores the lease: it marks there too, or the node
// does not count when the release is repeated.
func TestReleaseMarksANodeThatIsRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		held := c.leaseBeingRestored(t)
		release := func() error {
			call, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			return c.Release(call, engine.Release{Resource: stock, Held: held, Mark: time.Hour})
		}
		for _, n := range c.nodes[1:4] {
			n.set(hung)
		}
		if err := release(); !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("three of five nodes hang, and Release said %v", err)
		}
		c.nodes[1].set(healthy)
		<-time.After(3 * time.Second)
		if err := release(); err != nil {
			t.Errorf("the release again: %v", err)
		}
		<-time.After(time.Minute) // the lease would be over
		for _, n := range c.nodes {
			n.set(healthy)
		}
		<-time.After(5 * time.Second)
		if a, err := c.Acquire(t.Context(), mutexRequest("other.b")); err != nil || a.Status != engine.Marked {
			t.Errorf("after the release was confirmed: %+v, %v, want it marked as done", a.Status, err)
		}
		c.Leave("mine")
		c.Leave("other")
		<-time.After(time.Minute) // what is under way ends by its own bounds
	})
}

// A node grants late, after the release has failed, and is then released in the background. A
// release that is repeated meanwhile calls the node too, and counts it once: the others have
// confirmed nothing. No goroutine remains if the caller does not wait for the node's answers.
func TestReleaseIsRepeatedWhileANodeIsReleased(t *testing.T) {
	for _, again := range []time.Duration{time.Second, 50 * time.Millisecond} {
		t.Run(again.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				c.nodes[2].slow(0, 300*time.Millisecond)
				held := c.mustAcquire(t, "mine.a")
				synctest.Wait() // all have been called
				c.nodes[0].set(hung)
				c.nodes[1].set(hung)
				for _, timeout := range []time.Duration{100 * time.Millisecond, again} {
					call, cancel := context.WithTimeout(t.Context(), timeout)
					err := c.Release(call, engine.Release{Resource: stock, Held: held, Mark: time.Hour})
					cancel()
					if !errors.Is(err, engine.ErrUnavailable) {
						t.Errorf("the mark is on one node of three at most, and Release said %v", err)
					}
					time.Sleep(300 * time.Millisecond) // the node has granted, and is being released
				}
				c.Leave("mine")
				<-time.After(time.Minute) // what is under way ends by its own bounds
			})
		})
	}
}

// One node of three hangs, and another fails once, as a connection that was closed does: the
// client repeats the release in time.
func TestReleaseWhileOneNodeHangsAndOneFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		client, err := holdfast.New(c.Engine)
		if err != nil {
			t.Fatal(err)
		}
		m := client.Mutex("x")
		lock := func() *holdfast.Lease {
			l, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		for range 3 {
			if err := lock().Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Second)
		c.nodes[2].set(hung)
		l := lock()
		synctest.Wait()
		c.nodes[1].set(dead)
		time.AfterFunc(5*time.Millisecond, func() { c.nodes[1].set(healthy) })
		start := time.Now()
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 500*time.Millisecond {
			t.Errorf("the release took %v", took)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute) // what is under way ends by its own bounds
	})
}
