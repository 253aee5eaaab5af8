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

// state is what a TryLock meets on a node.
type state uint8

const (
	free   state = iota
	ahead        // free, and its last token is an hour ahead
	one          // held, by the same holder on all such nodes
	other        // held, by a holder of its own
	gone         // refuses connections
	silent       // does not answer
	states
)

func (s state) String() string {
	return [...]string{"free", "ahead", "one", "other", "gone", "silent"}[s]
}

// mixtures lists all multisets of so many states.
func mixtures(nodes int, from state) [][]state {
	if nodes == 0 {
		return [][]state{nil}
	}
	var all [][]state
	for s := from; s < states; s++ {
		for _, rest := range mixtures(nodes-1, s) {
			all = append(all, append([]state{s}, rest...))
		}
	}
	return all
}

// Whatever mixture of answers a TryLock meets: if a majority of the nodes can grant it,
// it is held; else, if a majority answers, it is busy, and the error names a holder; else
// the store is unavailable. Busy is said within 500 ms and leaves nothing.
func TestMixturesOfRefusals(t *testing.T) {
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
						c.put(t, n, "past.1", uint64(time.Now().Add(time.Hour).UnixMicro()))
						past := engine.Release{Resource: engine.Resource{Prefix: holdfast.DefaultPrefix, Name: stock.Name}, Held: engine.Held{ID: "past.1"}}
						if err := n.Engine.Release(t.Context(), past); err != nil {
							t.Fatal(err)
						}
					case one:
						c.put(t, n, "holder.1", 0)
					case other:
						c.put(t, n, fmt.Sprintf("holder.%d", i+2), 0)
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
						c.alone(t, c.nodes[i], name)
					}
				}
				_ = client.Close()
				<-time.After(ownTimeout)
			})
		}
	}
}

// put has a lease on one node.
func (c *cluster) put(t *testing.T, n *faulty, id string, token uint64) {
	t.Helper()
	r := asks(id)
	r.Resource.Prefix, r.Ballot = holdfast.DefaultPrefix, token
	if a, err := n.Engine.Acquire(t.Context(), r); err != nil || a.Status != engine.Granted {
		t.Fatal(a, err)
	}
}

// alone wants nobody on a node but those who were put there.
func (c *cluster) alone(t *testing.T, n *faulty, name string) {
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
