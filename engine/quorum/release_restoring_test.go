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

// restoring returns a lease that is being made anew on the last node, which did not
// have it: the node has done it, and its answer is on its way for 10 ms more.
func (c *cluster) restoring(t *testing.T) engine.Held {
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
	held := c.hold(t, "mine.a")
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
		held := c.restoring(t)
		c.nodes[1].set(dead)
		start := time.Now()
		c.give(t, held)
		if took := time.Since(start); took > 30*time.Millisecond {
			t.Errorf("the release took %v", took)
		}
		c.nodes[1].set(healthy)
		c.Leave("mine")
		<-time.After(time.Minute) // what is under way ends by its own bounds
	})
}

// A release with a mark that comes while a node makes the lease anew: it marks there
// too, or the node must not count when the release is tried again.
func TestAReleaseMarksANodeThatIsRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(5)
		held := c.restoring(t)
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
		if a, err := c.Acquire(t.Context(), asks("other.b")); err != nil || a.Status != engine.Marked {
			t.Errorf("after the release was confirmed: %+v, %v, want it marked as done", a.Status, err)
		}
		c.Leave("mine")
		c.Leave("other")
		<-time.After(time.Minute) // what is under way ends by its own bounds
	})
}

// One node of three hangs, and another refuses for a moment, as a connection that was
// closed does: the client tries again in time.
func TestReleaseWhileOneNodeHangsAndOneBlinks(t *testing.T) {
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
