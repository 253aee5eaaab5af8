package quorum

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

func sized(n int) *Engine { return &Engine{nodes: make([]*node, n), majority: n/2 + 1} }

// However holders are spread over the nodes, each of which keeps its own capacity, no
// more than the capacity is held; and no smaller number of nodes would do.
func TestNeededKeepsTheCapacity(t *testing.T) {
	for n := 1; n <= 9; n++ {
		e := sized(n)
		for capacity := 1; capacity <= 20; capacity++ {
			need := e.votesNeeded(engine.KindSemaphore, capacity)
			if most := n * capacity / need; most > capacity || need > n {
				t.Errorf("%d nodes, capacity %d, %d needed: %d can be held", n, capacity, need, most)
			}
			if less := need - 1; less >= e.majority && n*capacity/less <= capacity {
				t.Errorf("%d nodes, capacity %d: %d needed, %d would do", n, capacity, need, less)
			}
		}
		for _, kind := range []engine.Kind{engine.KindMutex, engine.KindElection, engine.KindJob, engine.KindLatch} {
			if need := e.votesNeeded(kind, 1); need != n/2+1 {
				t.Errorf("%d nodes, %s: %d needed", n, kind, need)
			}
		}
		if need := e.votesNeeded(engine.KindRW, 1<<20); need != n/2+1 {
			t.Errorf("%d nodes, readers: %d needed", n, need)
		}
	}
}

func TestLeaseIDs(t *testing.T) {
	const holder = "client.attempt"
	const token = 1<<53 - 1
	for _, id := range []string{leaseID(holder, token), leaseID(holder, token) + idSeparator + "7"} {
		if h, k := parseLeaseID(id); h != holder || k != token || engine.ClientOf(id) != "client" {
			t.Errorf("%q is of %q with token %d", id, h, k)
		}
	}
	for _, id := range []string{holder, "a~", "a~!", ""} {
		if h, k := parseLeaseID(id); h != id || k != 0 {
			t.Errorf("%q is taken for a lease of %q", id, h)
		}
	}
}
