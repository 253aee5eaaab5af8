package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// over is a quorum of one process, over nodes that others use too.
func over(mems []engine.Engine) *cluster {
	c := &cluster{}
	var all []engine.Engine
	for _, m := range mems {
		f := &faulty{Engine: m}
		c.nodes = append(c.nodes, f)
		all = append(all, f)
	}
	c.Engine = quorum.New(all...)
	return c
}

// An earlier try has left a lease on one node. Another process adopts the right one.
func TestAdoptLeavesALeftoverAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1, p2 := over(mems), over(mems)
		// first try: node 3 grants, and its answer is lost; others cannot be reached.
		p1.nodes[0].set(dead)
		p1.nodes[1].set(dead)
		p1.nodes[2].set(replyless)
		call, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if a, err := p1.Acquire(call, asks("mine.a")); err == nil {
			t.Fatalf("got %+v, want too few nodes", a)
		}
		cancel()
		p1.nodes[0].set(healthy)
		p1.nodes[1].set(healthy)
		p1.nodes[2].set(hung)
		h := p1.hold(t, "mine.a") // the same attempt again
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

// Another process gives the lease back with a mark: a node that refused the lease may
// take it for given back, and marks nothing.
func TestANodeThatRefusedDoesNotMarkForAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1, p2 := over(mems), over(mems)
		other := holdOn(t, mems[0], "other.a")
		time.Sleep(time.Second)
		mine := p1.hold(t, "mine.a")
		time.Sleep(time.Second)
		giveOn(t, mems[0], other)
		holdOn(t, mems[0], "other.b")
		if err := p2.renew(t, mine); err != nil {
			t.Fatal(err)
		}
		p2.nodes[1].set(hung)
		p2.wantNoMark(t, mine)
	})
}

// Leases of many clients are given back by another process, and nobody tells that it
// has left these clients.
func TestAdoptionsLeaveNoClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1, p2 := over(mems), over(mems)
		for i := range 100 {
			id := "client" + string(rune('A'+i/26)) + string(rune('a'+i%26)) + ".a"
			h := p1.hold(t, id)
			if err := p2.renew(t, h); err != nil {
				t.Fatal(err)
			}
			p2.give(t, h)
			p1.Leave(engine.ClientOf(id))
		}
		p2.Leave("mine")
		time.Sleep(time.Minute)
		if n := quorum.Clients(p2.Engine); n > 10 {
			t.Errorf("%d clients are left", n)
		}
	})
}
