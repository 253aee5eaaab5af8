package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// rw is a request for a lease of readers and writers.
func rw(id string, weight int) engine.Request {
	r := asks(id)
	r.Kind, r.Capacity, r.Weight = engine.KindRW, 1000, weight
	return r
}

// A writer is demoted, another reader comes, and nodes are restarted empty one after
// the other: the lease is made anew as a reader's.
func TestADemotedLeaseIsRestoredAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		a, err := c.Acquire(t.Context(), rw("mine.a", 1000))
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a, err)
		}
		mine := engine.Held{ID: "mine.a", Token: a.Token}
		synctest.Wait()
		if err := c.Resize(t.Context(), stock, mine, 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b, err := c.Acquire(t.Context(), rw("other.a", 1))
		if err != nil || b.Status != engine.Granted {
			t.Fatal(b, err)
		}
		other := engine.Held{ID: "other.a", Token: b.Token}
		synctest.Wait()
		for i := range c.nodes {
			c.nodes[i].mu.Lock()
			c.nodes[i].Engine = memory.New() // restarted empty
			c.nodes[i].mu.Unlock()
			for range 3 {
				time.Sleep(5 * time.Second)
				if err := c.renew(t, mine); err != nil {
					t.Errorf("after restart of node %d: mine: %v", i+1, err)
				}
				time.Sleep(time.Second)
				if err := c.renew(t, other); err != nil {
					t.Errorf("after restart of node %d: the other reader: %v", i+1, err)
				}
			}
		}
		d, err := c.Acquire(t.Context(), rw("third.a", 1))
		if err != nil || d.Status != engine.Granted {
			t.Errorf("a reader beside readers: %+v, %v", d, err)
		}
		c.Leave("mine")
		c.Leave("other")
		c.Leave("third")
		<-time.After(time.Minute)
	})
}

// The request for the lease comes to one node after its demotion.
func TestALateGrantIsDemotedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.nodes[2].slow(50*time.Millisecond, 0)
		a, err := c.Acquire(t.Context(), rw("mine.a", 1000))
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a, err)
		}
		synctest.Wait()
		c.nodes[2].slow(0, 0)
		mine := engine.Held{ID: "mine.a", Token: a.Token}
		if err := c.Resize(t.Context(), stock, mine, 1); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			time.Sleep(10 * time.Second)
			if err := c.renew(t, mine); err != nil {
				t.Fatal(err)
			}
		}
		c.nodes[0].set(dead)
		b, err := c.Acquire(t.Context(), rw("other.a", 1))
		if err != nil || b.Status != engine.Granted {
			t.Errorf("a reader beside a reader, one node is dead: %v %v", b.Status, err)
		}
		c.Leave("mine")
		c.Leave("other")
		<-time.After(time.Minute)
	})
}
