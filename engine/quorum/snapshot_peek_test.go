package quorum_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// snapshotCounter counts the whole snapshots that are taken of a node.
type snapshotCounter struct {
	engine.Engine
	asked *atomic.Int64
}

func (w snapshotCounter) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	w.asked.Add(1)
	return w.Engine.Snapshot(ctx, res)
}

// Peeks of an election and of a condition take no whole snapshots of the nodes, also while one of
// them has lost its data.
func TestPeekReadsNoWholeQueues(t *testing.T) {
	var asked atomic.Int64
	nodes := []*memory.Engine{memory.New(), memory.New(), memory.New()}
	var all []engine.Engine
	for _, n := range nodes {
		all = append(all, snapshotCounter{n, &asked})
	}
	e := quorum.New(all...)
	defer e.Leave("c")
	res := engine.Resource{Prefix: "p", Name: "stock#cond:full"}
	const waiters = 5 * engine.MaxPeeked
	for i := range waiters {
		a, err := e.Acquire(t.Context(), engine.Request{Resource: res, ID: fmt.Sprintf("c.%d", i), Client: &engine.Client{ID: "c"},
			Kind: engine.KindCond, Capacity: 1 << 20, Weight: 1, TTL: time.Minute})
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a, err)
		}
	}
	before := asked.Load()
	for i := range waiters {
		b, err := e.Peek(t.Context(), res)
		for err == nil && b.Holders[0].ID != fmt.Sprintf("c.%d", i) { // one node is later than the others
			b, err = e.Peek(t.Context(), res)
		}
		if err != nil {
			t.Fatal(err)
		}
		h := b.Holders[0]
		if err := e.Break(t.Context(), res, engine.Break{ID: h.ID, Token: h.Token, Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.Load() - before; n != 0 {
		t.Errorf("%d whole snapshots were taken", n)
	}
}

// A release has not reached one node yet. A peek at the shared resource shows no holder.
func TestPeekDoesNotCountOneNodesLeftover(t *testing.T) {
	for _, n := range []int{3, 5} {
		c := newCluster(n)
		r := mutexRequest("other.1")
		r.Kind, r.Capacity = engine.KindSemaphore, 3
		if a, err := c.nodes[n-1].Engine.Acquire(t.Context(), r); err != nil || a.Status != engine.Granted {
			t.Fatalf("got %+v, %v", a, err)
		}
		for range 100 { // the node is not always among those that answer in time
			b, err := c.Peek(t.Context(), stock)
			if err != nil || b.More || len(b.Holders) > 0 {
				t.Fatalf("%d nodes: got %+v, %v, want no holder", n, b, err)
			}
		}
	}
}
