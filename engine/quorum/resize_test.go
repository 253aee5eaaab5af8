package quorum_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// rw is a request for a lease of readers and writers.
func rw(id string, weight int) engine.Request {
	r := mutexRequest(id)
	r.Kind, r.Capacity, r.Weight = engine.KindRW, 1000, weight
	return r
}

// A writer is demoted, another reader is granted, and nodes are restarted empty one after the
// other: the lease is restored as a reader's.
func TestDemotedLeaseIsRestoredAsAReaders(t *testing.T) {
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

// The request for the lease reaches one node after its demotion.
func TestLateGrantIsDemotedToo(t *testing.T) {
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

// One node is down when a writer is demoted, and keeps the lease: it is demoted there when the node
// is back, or after a while with the next renewal.
func TestDemotionThatANodeMissedIsRepeated(t *testing.T) {
	for _, what := range []fault{dead, hung, replyless} {
		for _, down := range []time.Duration{time.Second, 2 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				r := rw("mine.a", 1000)
				r.TTL = time.Hour
				a, err := c.Acquire(t.Context(), r)
				if err != nil || a.Status != engine.Granted {
					t.Fatal(a, err)
				}
				mine := engine.Held{ID: "mine.a", Token: a.Token}
				synctest.Wait()
				c.nodes[2].set(what)
				if err := c.Resize(t.Context(), stock, mine, 1); err != nil {
					t.Fatal(err)
				}
				time.Sleep(down)
				c.nodes[2].set(healthy)
				time.Sleep(10 * time.Second)
				if down > time.Minute {
					for range 2 {
						if err := c.Renew(t.Context(), []engine.Renewal{{Resource: stock, Held: mine, TTL: r.TTL}})[0]; err != nil {
							t.Fatal(err)
						}
						time.Sleep(2 * time.Second)
					}
				}
				c.wantWeights(t, 1, 1, 1)
				c.nodes[0].set(dead)
				b, err := c.Acquire(t.Context(), rw("other.a", 1))
				if err != nil || b.Status != engine.Granted {
					t.Errorf("%v for %v: a reader beside a reader, one node is dead: %v %v", what, down, b.Status, err)
				}
				c.Leave("mine")
				c.Leave("other")
				<-time.After(time.Minute)
			})
		}
	}
}

// A node has a ballot of a waiter, and it is withdrawn before Resize reaches the node. The waiter
// has never had a lease that could have been released.
func TestBallotIsNoLeaseToResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.occupy(t, func(i int) bool { return i < 2 })
		c.nodes[2].slow(0, 20*time.Millisecond)
		r := mutexRequest("mine.a")
		r.Queue = true
		if a, err := c.Acquire(t.Context(), r); err != nil || a.Status != engine.Queued {
			t.Fatal(a, err)
		}
		time.Sleep(5 * time.Millisecond) // the answer of the third node comes after 20 ms
		err := c.Resize(t.Context(), stock, engine.Held{ID: r.ID}, 1)
		if gone, ok := errors.AsType[*engine.NotHeldError](err); !ok || gone.Cause != engine.CauseDeleted {
			t.Errorf("got %v, want %v", err, engine.CauseDeleted)
		}
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}

// A node that has not answered a Resize is released like the others.
func TestReleaseWhileAResizeIsUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		r := mutexRequest("mine.a")
		r.Kind, r.Capacity, r.Weight, r.TTL = engine.KindRW, 1000, 1000, time.Minute
		a, err := c.Acquire(t.Context(), r)
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a, err)
		}
		mine := engine.Held{ID: "mine.a", Token: a.Token}
		synctest.Wait()
		c.nodes[2].set(stopped)
		if err := c.Resize(t.Context(), stock, mine, 1); err != nil {
			t.Fatal(err)
		}
		<-time.After(400 * time.Millisecond)
		if _, err := c.Peek(t.Context(), stock); err != nil { // takes the probe of the third node
			t.Fatal(err)
		}
		c.mustRelease(t, mine)
		c.nodes[2].set(healthy)
		<-time.After(20 * time.Second)
		c.wantNothingOf(t, "mine")
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}

// A node receives the request for a lease late: its answer comes while a Resize is under way
// there, and the lease has been released by then. The node does not keep it.
func TestLateGrantDuringAResizeIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.nodes[2].slow(50*time.Millisecond, 0)
		a, err := c.Acquire(t.Context(), rw("mine.a", 1000))
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a, err)
		}
		c.nodes[2].slow(0, 200*time.Millisecond)
		mine := engine.Held{ID: "mine.a", Token: a.Token}
		if err := c.Resize(t.Context(), stock, mine, 1); err != nil {
			t.Fatal(err)
		}
		c.mustRelease(t, mine)
		c.nodes[2].slow(0, 0)
		time.Sleep(time.Second)
		c.wantNothingOf(t, "mine")
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}
