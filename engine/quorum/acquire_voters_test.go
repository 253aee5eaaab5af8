package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// warmed returns a cluster whose nodes have all answered, and its voters for the resource of the
// tests: the nodes that a ballot calls first.
func warmed(t *testing.T, size int) (c *cluster, voters, spares []*faultyNode) {
	t.Helper()
	c = newCluster(size)
	for _, n := range c.nodes {
		n.slow(100*time.Microsecond, 100*time.Microsecond)
	}
	c.mustRelease(t, c.mustAcquire(t, "warm.1"))
	<-time.After(time.Second)
	h := c.mustAcquire(t, "warm.2")
	for _, n := range c.nodes {
		if c.holds(t, n, "warm.2") {
			voters = append(voters, n)
		} else {
			spares = append(spares, n)
		}
	}
	c.mustRelease(t, h)
	if len(voters) != size/2+1 {
		t.Fatalf("%d of %d nodes have voted", len(voters), size)
	}
	return c, voters, spares
}

// holds reports whether a node has a lease of a holder ID.
func (c *cluster) holds(t *testing.T, n *faultyNode, id string) bool {
	t.Helper()
	s, err := n.Engine.Snapshot(t.Context(), stock)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(s.Holders, func(h engine.Holder) bool {
		return len(h.ID) > len(id) && h.ID[:len(id)+1] == id+"~"
	})
}

// A lease that is released at once is requested on a majority only, on the same one by each process.
func TestAPairCallsAMajority(t *testing.T) {
	for _, size := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			c, voters, spares := warmed(t, size)
			before := make(map[*faultyNode]int)
			for _, n := range c.nodes {
				before[n] = n.count()
			}
			for i := range 100 {
				c.mustRelease(t, c.mustAcquire(t, fmt.Sprint("a.", i)))
			}
			for _, n := range voters {
				if calls := n.count() - before[n]; calls != 200 {
					t.Errorf("a voter got %d calls for 100 pairs", calls)
				}
			}
			for _, n := range spares {
				if calls := n.count() - before[n]; calls != 0 {
					t.Errorf("a spare got %d calls", calls)
				}
			}
			var nodes []engine.Engine
			for _, n := range c.nodes {
				nodes = append(nodes, n)
			}
			other := &cluster{quorum.New(nodes...), c.nodes}
			other.mustRelease(t, other.mustAcquire(t, "b.1"))
			time.Sleep(time.Second)
			h := other.mustAcquire(t, "b.2")
			for _, n := range spares {
				if c.holds(t, n, "b.2") {
					t.Error("another process has called other nodes first")
				}
			}
			other.mustRelease(t, h)
			c.leaveAll("warm", "a")
			other.leaveAll("b")
		})
	}
}

// Resources are spread over the nodes: each is a spare for some.
func TestVotersDifferByResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := warmed(t, 5)
		var before []int
		for _, n := range c.nodes {
			before = append(before, n.count())
		}
		for i := range 500 {
			r := mutexRequest(fmt.Sprint("a.", i))
			r.Resource.Name = r.ID
			c.mustReleaseOf(t, r.Resource, c.mustGrant(t, r))
		}
		for i, n := range c.nodes {
			if calls := n.count() - before[i]; calls < 400 || calls > 800 {
				t.Errorf("node %d got %d calls of 3000", i+1, calls)
			}
		}
		c.leaveAll("warm", "a")
	})
}

// A spare is called as soon as a voter fails, and after the usual time if one does not answer.
func TestSparesReplaceVoters(t *testing.T) {
	for _, f := range []struct {
		what fault
		took time.Duration
	}{{dead, 300 * time.Microsecond}, {hung, time.Millisecond}} {
		for failing := range 2 {
			synctest.Test(t, func(t *testing.T) {
				c, voters, _ := warmed(t, 5)
				for _, n := range voters[:failing+1] {
					n.set(f.what)
				}
				start := time.Now()
				h := c.mustAcquire(t, "a.1")
				if took := time.Since(start); took > f.took {
					t.Errorf("fault %v of %d voters: it took %v, want at most %v", f.what, failing+1, took, f.took)
				}
				for _, n := range voters {
					n.set(healthy)
				}
				time.Sleep(2 * ownTimeout)
				c.mustRelease(t, h)
				time.Sleep(time.Second)
				c.wantNothingOf(t, "a")
				c.leaveAll("warm", "a")
			})
		}
	}
}

// Another process holds the lease on the voters. The ballot is refused without the spares; the
// turn of a waiter is where the lease is.
func TestARefusalCallsNoSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, spares := warmed(t, 5)
		h := c.mustAcquire(t, "a.1")
		before := spares[0].count() + spares[1].count()
		for i, queue := range []bool{false, true} {
			r := mutexRequest(fmt.Sprint("b.", i))
			r.Queue = queue
			want := map[bool]engine.Status{false: engine.Busy, true: engine.Queued}[queue]
			if a, err := c.Acquire(t.Context(), r); err != nil || a.Status != want {
				t.Errorf("got %+v, %v", a, err)
			}
		}
		if calls := spares[0].count() + spares[1].count() - before; calls > 0 {
			t.Errorf("the spares got %d calls", calls)
		}
		c.mustRelease(t, h)
		if a, err := c.Acquire(t.Context(), mutexRequest("c.1")); err != nil || a.Status != engine.Busy {
			t.Errorf("a newcomer has passed the waiter: %+v, %v", a, err)
		}
		r := mutexRequest("b.1")
		r.Queue = true
		c.mustRelease(t, c.mustGrant(t, r))
		time.Sleep(5 * time.Second)
		c.wantNothingOf(t, "b")
		c.leaveAll("warm", "a", "b", "c")
	})
}

// If all voters are far away and do not answer, the spares are called all the same.
func TestSparesOfFarVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, voters, _ := warmed(t, 5)
		for _, n := range c.nodes {
			n.slow(150*time.Millisecond, 150*time.Millisecond)
		}
		for i := range 50 { // the averages follow
			c.mustRelease(t, c.mustAcquire(t, fmt.Sprint("far.", i)))
		}
		voters[0].set(hung)
		start := time.Now()
		h := c.mustAcquire(t, "a.1")
		if took := time.Since(start); took > 420*time.Millisecond {
			t.Errorf("it took %v, want 100 ms and a round trip of 300 ms", took)
		}
		voters[0].set(healthy)
		time.Sleep(2 * ownTimeout)
		c.mustRelease(t, h)
		time.Sleep(2 * time.Second)
		c.wantNothingOf(t, "a")
		c.leaveAll("warm", "far", "a")
	})
}
