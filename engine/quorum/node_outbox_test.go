package quorum_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// ownResourceRequest is a request for a resource that no other test client uses.
func ownResourceRequest(id string) engine.Request {
	r := mutexRequest(id)
	r.Resource.Name = id
	return r
}

// acquireEach acquires a resource of its own for each of n holder IDs.
func (c *cluster) acquireEach(t *testing.T, n int) []engine.Held {
	t.Helper()
	var held []engine.Held
	for i := range n {
		r := ownResourceRequest(fmt.Sprintf("a.%d", i))
		a, err := c.Acquire(t.Context(), r)
		if err != nil || a.Status != engine.Granted {
			t.Fatalf("got %+v, %v, want it granted", a, err)
		}
		held = append(held, engine.Held{ID: r.ID, Token: a.Token})
	}
	return held
}

// leasesOn counts the leases on a node.
func (c *cluster) leasesOn(t *testing.T, node int) int {
	t.Helper()
	n := 0
	for s, err := range c.nodes[node].Engine.List(t.Context(), stock.Prefix, "*") {
		if err != nil {
			t.Fatal(err)
		}
		n += len(s.Holders)
	}
	return n
}

// Many leases are released while a node hangs. Neither goroutines nor calls to that node
// accumulate, no release waits for it, and as many as fit into an outbox are repeated when it is
// resumed.
func TestReleasesWhileANodeHangs(t *testing.T) {
	const room = 1024
	n := redistest.Scale(2_000, 100_000)
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		held := c.acquireEach(t, n)
		time.Sleep(time.Second)
		c.nodes[2].set(hung)
		goroutines := runtime.NumGoroutine()
		before, calls := memoryInUse(), c.nodes[2].count()
		c.nodes[2].mostOpen = 0
		var longest time.Duration
		most := 0
		for _, h := range held {
			start := time.Now()
			if err := c.Release(t.Context(), engine.Release{Resource: ownResourceRequest(h.ID).Resource, Held: h}); err != nil {
				t.Fatalf("Release: %v", err)
			}
			longest = max(longest, time.Since(start))
			most = max(most, runtime.NumGoroutine()-goroutines)
			time.Sleep(10 * time.Microsecond)
		}
		t.Logf("%d releases: %d more goroutines, longest %v, %d calls, %d B", n, most, longest, c.nodes[2].count()-calls, memoryInUse()-before)
		if most > 40 {
			t.Errorf("%d goroutines more", most)
		}
		if longest > 10*time.Millisecond {
			t.Errorf("a release took %v", longest)
		}
		if c.nodes[2].mostOpen > 40 {
			t.Errorf("%d calls were open", c.nodes[2].mostOpen)
		}
		left := c.leasesOn(t, 2)
		c.nodes[2].set(healthy)
		time.Sleep(2 * ownTimeout)
		if told := left - c.leasesOn(t, 2); told < min(n, room) {
			t.Errorf("%d of %d leases were released when the node went on", told, left)
		}
		c.Leave("a")
	})
}

func memoryInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Nodes that answer after the others get a release once, not once from the caller and once more
// in the background.
func TestReleaseIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		for i, n := range c.nodes {
			n.slow(time.Duration(i+1)*100*time.Microsecond, 100*time.Microsecond)
		}
		for i := range 100 {
			h := c.mustAcquire(t, fmt.Sprintf("a.%d", i))
			time.Sleep(quorum.SpreadDelay + time.Millisecond)
			c.mustRelease(t, h)
			time.Sleep(time.Millisecond)
		}
		for i, n := range c.nodes {
			if n.count() != 200 {
				t.Errorf("node %d got %d calls for 100 pairs", i+1, n.count())
			}
		}
		c.Leave("a")
	})
}

// One node fails for a moment, and another hangs, which is not detected yet. The first node is
// still called.
func TestFailingNodeIsCalledWhileAnotherHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.mustRelease(t, c.mustAcquire(t, "a.0"))
		time.Sleep(time.Second)
		c.nodes[1].set(dead)
		c.nodes[2].set(hung)
		call, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if a, err := c.Acquire(call, mutexRequest("a.1")); err == nil {
			t.Errorf("got %+v, want too few nodes", a)
		}
		synctest.Wait() // the first node has taken back what it granted
		c.nodes[1].set(healthy)
		a, err := c.Acquire(t.Context(), mutexRequest("a.2"))
		if err != nil || a.Status != engine.Granted {
			t.Errorf("got %+v, %v, want it granted by the two that answer", a, err)
		}
		c.Leave("a")
		time.Sleep(2 * ownTimeout)
	})
}

// A node hangs while a client waits and others lock and unlock, dies, and is back when the client
// leaves. The client's turn is removed at once, without the backoff of the node, although stale
// calls are ahead in the outbox.
func TestLeaveCallsNodesThatWereDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		held := c.mustAcquire(t, "b.0")
		waits := mutexRequest("a.0")
		waits.Queue = true
		if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Queued {
			t.Fatalf("got %+v, %v, want it queued", a, err)
		}
		time.Sleep(time.Second)
		c.nodes[2].set(stopped)
		for i := range 100 {
			r := ownResourceRequest(fmt.Sprintf("a.%d", i+1))
			a, err := c.Acquire(t.Context(), r)
			if err != nil || a.Status != engine.Granted {
				t.Fatalf("got %+v, %v, want it granted", a, err)
			}
			if err := c.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}}); err != nil {
				t.Fatalf("Release: %v", err)
			}
			time.Sleep(time.Millisecond)
		}
		c.nodes[2].set(dead)
		c.mustRelease(t, held)
		if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Granted {
			t.Fatalf("got %+v, %v, want it granted", a, err)
		} else {
			c.mustRelease(t, engine.Held{ID: waits.ID, Token: a.Token})
		}
		time.Sleep(20 * time.Millisecond)
		c.nodes[2].set(healthy)
		c.Leave("a")
		c.wantNothingOf(t, "a")
		c.Leave("b")
	})
}
