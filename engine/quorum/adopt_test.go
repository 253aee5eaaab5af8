package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A lease is granted while a node is away, and adopted by another process. It is made anew
// on that node, and on one that is restarted empty, as on behalf of the first process.
func TestAnAdoptedLeaseIsMadeAnew(t *testing.T) {
	for name, r := range map[string]engine.Request{
		"mutex": asks("mine.a"), "reader": rw("mine.a", 1), "writer": rw("mine.a", 1000), "job": marked("mine.a", long),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { adoptedIsMadeAnew(t, r) })
		})
	}
}

func adoptedIsMadeAnew(t *testing.T, r engine.Request) {
	mems := memories(3)
	p1, p2 := over(mems), over(mems)
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

// Another process adopts a lease whose node does not answer at first. What it is called
// there is known from the answer to a renewal.
func TestAnAdoptedLeaseIsDemotedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1, p2 := over(mems), over(mems)
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

// wantWeights wants each node to count a weight for its one holder.
func (c *cluster) wantWeights(t *testing.T, want ...int) {
	t.Helper()
	for i, n := range c.nodes {
		s, err := n.Engine.Snapshot(t.Context(), stock)
		if err != nil || len(s.Holders) != 1 || s.Holders[0].Weight != want[i] {
			t.Errorf("node %d has %+v, %v, want one holder of weight %d", i+1, s.Holders, err, want[i])
		}
	}
}
