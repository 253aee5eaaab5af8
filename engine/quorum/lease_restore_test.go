package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A late answer to a renewal reports that a node does not have the lease, which has been restored
// there meanwhile.
func TestLateAnswerDoesNotRestoreTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		other := acquireOn(t, c.nodes[2].Engine, "other.a")
		h := c.mustAcquire(t, "mine.a")
		synctest.Wait()
		releaseOn(t, c.nodes[2].Engine, other)
		time.Sleep(time.Second)
		c.nodes[2].slow(0, 200*time.Millisecond) // this answer is late
		if err := c.renew(t, h); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.nodes[2].slow(0, 0)
		time.Sleep(100 * time.Millisecond)
		if err := c.renew(t, h); err != nil { // this one is answered first
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.mustRelease(t, h)
		time.Sleep(time.Second)
		c.wantNothingOf(t, "mine")
		c.nodes[0].set(dead) // a minority
		call, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if a, err := c.Acquire(call, mutexRequest("other.b")); err != nil || a.Status != engine.Granted {
			t.Errorf("there is no holder, one node is dead: %v, %v", a.Status, err)
		}
		c.Leave("mine")
		c.Leave("other")
		<-time.After(time.Minute)
	})
}

// A restored lease has another ID on the node. Its break still reaches the holder.
func TestBreakOfARestoredLeaseReachesItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		got := make(chan engine.Wakeup, 10)
		l, err := c.Listen(t.Context(), stock.Prefix, "mine", func(w engine.Wakeup) { got <- w })
		if err != nil {
			t.Fatal(err)
		}
		h := c.mustAcquire(t, "mine.a")
		synctest.Wait()
		for _, n := range c.nodes[:2] {
			s, _ := n.Engine.Snapshot(t.Context(), stock)
			if err := n.Engine.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: s.Holders[0].ID, Token: s.Holders[0].Token}, Withdraw: true}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := c.renew(t, h); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := c.Break(t.Context(), stock, engine.Break{ID: h.ID}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		told := false
		for len(got) > 0 {
			if w := <-got; w.Kind == engine.WakeBroken && w.ID == h.ID {
				told = true
			}
		}
		if !told {
			t.Error("the break did not reach the holder")
		}
		_ = l.Close()
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}

// A restored lease has another ID on the node. Another process that releases the lease releases it there, too.
func TestReleaseByAnotherProcessOfARestoredLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		h := c.mustAcquire(t, "mine.a")
		time.Sleep(time.Second)
		c.nodes[0].mu.Lock()
		c.nodes[0].Engine = memory.New()
		c.nodes[0].mu.Unlock()
		if err := c.renew(t, h); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		other := c.otherProcess()
		other.mustRelease(t, h)
		time.Sleep(long / 3)
		c.wantNothingOf(t, "mine")
		c.leaveAll("mine")
		other.leaveAll("mine")
		time.Sleep(time.Minute)
	})
}
