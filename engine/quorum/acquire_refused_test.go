package quorum_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// nodeState is the state of a node before a TryLock.
type nodeState uint8

const (
	free   nodeState = iota
	ahead            // free, and its last token is an hour ahead
	one              // held, by the same holder on all such nodes
	other            // held, by a holder of its own
	gone             // refuses connections
	silent           // does not answer
	states
)

func (s nodeState) String() string {
	return [...]string{"free", "ahead", "one", "other", "gone", "silent"}[s]
}

// mixtures returns all multisets of that many states.
func mixtures(nodes int, from nodeState) [][]nodeState {
	if nodes == 0 {
		return [][]nodeState{nil}
	}
	var all [][]nodeState
	for s := from; s < states; s++ {
		for _, rest := range mixtures(nodes-1, s) {
			all = append(all, append([]nodeState{s}, rest...))
		}
	}
	return all
}

// TryLock runs on every mixture of free, held, outbid, dead and hung nodes. If a majority can grant
// the lease, it is granted; otherwise, if a majority answers, it is busy, and the error names a
// holder; otherwise the store is unavailable. Busy is returned within 500 ms and leaves nothing.
func TestTryLockOnMixedNodes(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		for _, mix := range mixtures(nodes, free) {
			name := fmt.Sprint(mix)
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(nodes)
				can, answer := 0, 0
				for i, s := range mix {
					n := c.nodes[i]
					switch s {
					case ahead:
						c.acquireOnNode(t, n, "past.1", uint64(time.Now().Add(time.Hour).UnixMicro()))
						past := engine.Release{Resource: engine.Resource{Prefix: holdfast.DefaultPrefix, Name: stock.Name}, Held: engine.Held{ID: "past.1"}}
						if err := n.Engine.Release(t.Context(), past); err != nil {
							t.Fatal(err)
						}
					case one:
						c.acquireOnNode(t, n, "holder.1", 0)
					case other:
						c.acquireOnNode(t, n, fmt.Sprintf("holder.%d", i+2), 0)
					case gone:
						n.set(dead)
					case silent:
						n.set(hung)
					}
					if s <= ahead {
						can++
					}
					if s <= other {
						answer++
					}
				}
				client := open(t, c)
				start := time.Now()
				l, err := client.Mutex(stock.Name).TryLock(t.Context())
				took := time.Since(start)
				var held *holdfast.HeldError
				switch majority := nodes/2 + 1; {
				case can >= majority:
					if err != nil {
						t.Errorf("%s: %v, want it granted", name, err)
					} else if err := l.Release(t.Context()); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				case answer >= majority:
					if !errors.As(err, &held) || engine.ClientOf(held.HolderID) != "holder" || errors.Is(err, holdfast.ErrUnavailable) {
						t.Errorf("%s: %v, want it busy", name, err)
					}
					if took > 500*time.Millisecond {
						t.Errorf("%s: it took %v", name, took)
					}
				default:
					if !errors.Is(err, holdfast.ErrUnavailable) {
						t.Errorf("%s: %v, want it unavailable", name, err)
					}
				}
				synctest.Wait()
				for i, s := range mix {
					if s <= other {
						c.wantOnly(t, c.nodes[i], name)
					}
				}
				_ = client.Close()
				<-time.After(ownTimeout)
			})
		}
	}
}

// acquireOnNode acquires the mutex on one node.
func (c *cluster) acquireOnNode(t *testing.T, n *faultyNode, id string, token uint64) {
	t.Helper()
	r := mutexRequest(id)
	r.Resource.Prefix, r.Ballot = holdfast.DefaultPrefix, token
	if a, err := n.Engine.Acquire(t.Context(), r); err != nil || a.Status != engine.Granted {
		t.Fatal(a, err)
	}
}

// wantOnly checks that a node has no other holder.
func (c *cluster) wantOnly(t *testing.T, n *faultyNode, name string) {
	t.Helper()
	s, err := n.Engine.Snapshot(t.Context(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: stock.Name})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range s.Holders {
		if engine.ClientOf(h.ID) != "holder" {
			t.Errorf("%s: %s is left", name, h.ID)
		}
	}
}

// A resource is of another kind if it is on a majority of the nodes. On a minority the other kind
// is being released, or was never granted: it does not prevent a grant for long, even if a lease
// needs all nodes.
func TestAnotherKindOnSomeNodes(t *testing.T) {
	for _, size := range []int{3, 4, 5} {
		for _, capacity := range []int{1, 2, 3, 100} {
			for occupied := range 1 << size {
				t.Run(fmt.Sprintf("%d nodes, capacity %d, %b", size, capacity, occupied), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { mismatchOnSome(t, size, capacity, occupied) })
				})
			}
		}
	}
}

func mismatchOnSome(t *testing.T, size, capacity, occupied int) {
	c := newCluster(size)
	old := mutexRequest("other.1")
	old.Kind, old.Capacity = engine.KindRW, 1000
	busy := 0
	for i, n := range c.nodes {
		if occupied&(1<<i) == 0 {
			continue
		}
		busy++
		a, err := n.Engine.Acquire(t.Context(), old)
		if err != nil || a.Status != engine.Granted {
			t.Fatalf("got %+v, %v", a, err)
		}
		time.AfterFunc(30*time.Millisecond, func() {
			if err := n.Engine.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: old.ID, Token: a.Token}}); err != nil {
				t.Error(err)
			}
		})
	}
	r := mutexRequest("a.1")
	r.Kind, r.Capacity = engine.KindSemaphore, capacity
	start := time.Now()
	a, err := c.Acquire(t.Context(), r)
	switch took := time.Since(start); {
	case busy >= size/2+1:
		if !errors.Is(err, engine.ErrMismatch) || took > 0 {
			t.Errorf("got %+v, %v after %v, want ErrMismatch at once", a, err, took)
		}
	case err != nil || a.Status != engine.Granted || took > 100*time.Millisecond:
		t.Errorf("got %+v, %v after %v, want it granted", a, err, took)
	default:
		c.mustRelease(t, engine.Held{ID: r.ID, Token: a.Token})
	}
	<-time.After(time.Second) // all is released
	c.Leave("a")
	c.wantNothingOf(t, "a")
}
