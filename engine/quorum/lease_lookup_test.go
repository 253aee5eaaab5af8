package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// clusterOn returns the quorum of one process over nodes that other processes use too.
func clusterOn(mems []engine.Engine) *cluster {
	c := &cluster{}
	var all []engine.Engine
	for _, m := range mems {
		f := &faultyNode{Engine: m}
		c.nodes = append(c.nodes, f)
		all = append(all, f)
	}
	c.Engine = quorum.New(all...)
	return c
}

// An earlier ballot has left a lease on one node. Another process adopts the lease of the majority.
func TestAdoptPassesOverAnEarlierBallot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1, p2 := clusterOn(mems), clusterOn(mems)
		// The first ballot: node 3 grants, and its answer is lost; the others cannot be reached.
		p1.nodes[0].set(dead)
		p1.nodes[1].set(dead)
		p1.nodes[2].set(replyless)
		call, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if a, err := p1.Acquire(call, mutexRequest("mine.a")); err == nil {
			t.Fatalf("got %+v, want too few nodes", a)
		}
		cancel()
		p1.nodes[0].set(healthy)
		p1.nodes[1].set(healthy)
		p1.nodes[2].set(hung)
		h := p1.mustAcquire(t, "mine.a") // the same attempt again
		p1.Leave("mine")
		p2.nodes[2].slow(0, time.Millisecond)
		if err := p2.renew(t, h); err != nil {
			t.Errorf("adopted by another process: %v", err)
		}
		if err := p2.renew(t, h); err != nil {
			t.Errorf("again: %v", err)
		}
		p2.Leave("mine")
		<-time.After(time.Minute)
	})
}

// Another process releases the lease with a mark. A node that refused the lease may confirm the
// release as a repeated one, without a mark.
func TestANodeThatRefusedDoesNotMarkForAnotherProcess(t *testing.T) {
	for _, adopts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			mems := memories(3)
			p1, p2 := clusterOn(mems), clusterOn(mems)
			other := acquireOn(t, mems[0], "other.a")
			time.Sleep(time.Second)
			mine := p1.mustAcquire(t, "mine.a")
			time.Sleep(time.Second)
			releaseOn(t, mems[0], other)
			acquireOn(t, mems[0], "other.b")
			if adopts {
				if err := p2.renew(t, mine); err != nil {
					t.Fatal(err)
				}
			}
			p2.nodes[1].set(hung)
			p2.wantNoMark(t, mine)
			p1.Leave("mine")
		})
	}
}

// Another process releases the leases of many clients, and never calls Leave for them. It keeps no
// state of these clients.
func TestAdoptionsLeaveNoClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1, p2 := clusterOn(mems), clusterOn(mems)
		for i := range 100 {
			id := "client" + string(rune('A'+i/26)) + string(rune('a'+i%26)) + ".a"
			h := p1.mustAcquire(t, id)
			if err := p2.renew(t, h); err != nil {
				t.Fatal(err)
			}
			p2.mustRelease(t, h)
			p1.Leave(engine.ClientOf(id))
		}
		p2.Leave("mine")
		time.Sleep(time.Minute)
		if n := quorum.Clients(p2.Engine); n > 10 {
			t.Errorf("%d clients are left", n)
		}
	})
}

// Another process renews a lease, which two nodes get between the lookup of that process and its renewal.
// It then releases the lease there, too.
func TestAdoptedLeaseIsSpreadAfterTheLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, spares := warmed(t, 5)
		other := c.otherProcess()
		for _, n := range spares {
			other.sameNode(c, n).slow(3*time.Millisecond, 6*time.Millisecond)
		}
		h := c.mustAcquire(t, "a.1")
		if err := other.renew(t, h); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		other.mustRelease(t, h)
		time.Sleep(time.Second)
		c.wantNothingOf(t, "a")
		c.leaveAll("warm", "a")
		other.leaveAll("a")
		time.Sleep(time.Minute)
	})
}

// A lease is granted while a node is down, and adopted by another process. That process restores it
// on the node, and on one that is restarted empty, as the first process would.
func TestAdoptedLeaseIsRestored(t *testing.T) {
	for name, r := range map[string]engine.Request{
		"mutex": mutexRequest("mine.a"), "reader": rw("mine.a", 1), "writer": rw("mine.a", 1000), "job": marked("mine.a", long),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { adoptedIsRestored(t, r) })
		})
	}
}

func adoptedIsRestored(t *testing.T, r engine.Request) {
	mems := memories(3)
	p1, p2 := clusterOn(mems), clusterOn(mems)
	p1.nodes[2].set(dead)
	r.Reason = "stocktaking"
	a, err := p1.Acquire(t.Context(), r)
	if err != nil || a.Status != engine.Granted {
		t.Fatal(a, err)
	}
	p1.Leave("mine")
	held := engine.Held{ID: r.ID, Token: a.Token}
	renew := func(when string) {
		t.Helper()
		for range 3 {
			<-time.After(5 * time.Second)
			if err := p2.renew(t, held); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	renew("adopted")
	p2.nodes[0].mu.Lock()
	p2.nodes[0].Engine = memory.New() // restarted empty
	p2.nodes[0].mu.Unlock()
	renew("the first node has lost it")
	p2.nodes[1].set(dead)
	renew("the second node is dead")
	for i, n := range p2.nodes {
		s, err := n.Engine.Snapshot(t.Context(), stock)
		if err != nil || len(s.Holders) != 1 {
			t.Errorf("node %d has %+v, %v, want one holder", i+1, s, err)
			continue
		}
		h := s.Holders[0]
		if s.Kind != r.Kind || s.Capacity != r.Capacity || h.Weight != r.Weight || h.Client.ID != "mine" || h.Reason != r.Reason || (s.Marked > 0) != (r.Mark > 0) {
			t.Errorf("node %d has %+v", i+1, s)
		}
	}
	if err := p2.Release(t.Context(), engine.Release{Resource: stock, Held: held}); err != nil {
		t.Error(err)
	}
	p2.Leave("mine")
	<-time.After(time.Minute)
}

// Another process adopts a lease while one of the nodes does not answer. The answer to a renewal
// then confirms the ID of the lease on that node.
func TestAdoptedLeaseIsDemotedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1, p2 := clusterOn(mems), clusterOn(mems)
		a, err := p1.Acquire(t.Context(), rw("mine.a", 1000))
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a, err)
		}
		p1.Leave("mine")
		held := engine.Held{ID: "mine.a", Token: a.Token}
		p2.nodes[2].set(dead)
		if err := p2.renew(t, held); err != nil {
			t.Fatal(err)
		}
		if err := p2.Resize(t.Context(), stock, held, 1); err != nil {
			t.Fatal(err)
		}
		p2.nodes[2].set(healthy)
		for range 2 {
			time.Sleep(10 * time.Second)
			if err := p2.renew(t, held); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		p2.wantWeights(t, 1, 1, 1)
		p2.Leave("mine")
		<-time.After(time.Minute)
	})
}

// wantWeights checks the weight of the only holder on each node.
func (c *cluster) wantWeights(t *testing.T, want ...int) {
	t.Helper()
	for i, n := range c.nodes {
		s, err := n.Engine.Snapshot(t.Context(), stock)
		if err != nil || len(s.Holders) != 1 || s.Holders[0].Weight != want[i] {
			t.Errorf("node %d has %+v, %v, want one holder of weight %d", i+1, s.Holders, err, want[i])
		}
	}
}
