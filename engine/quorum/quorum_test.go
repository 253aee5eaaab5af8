package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

func TestBadNodes(t *testing.T) {
	m := memory.New()
	var none *memory.Engine
	for want, nodes := range map[string][]engine.Engine{
		"no nodes":                   nil,
		"node 2 is nil":              {m, nil, memory.New()},
		"node 1 is nil":              {none},
		"nodes 1 and 3 are the same": {m, memory.New(), m},
	} {
		q := quorum.New(nodes...)
		_, err := q.Acquire(t.Context(), mutexRequest("a.1"))
		if !errors.Is(err, engine.ErrDenied) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrDenied and %q", err, want)
		}
		if err := q.Renew(t.Context(), make([]engine.Renewal, 1))[0]; !errors.Is(err, engine.ErrDenied) {
			t.Errorf("Renew: %v", err)
		}
		q.Leave("a")
	}
}

// Any subset of the nodes is occupied. The lease is granted if and only if a majority is free, and
// a refusal leaves nothing.
func TestEverySubsetOccupied(t *testing.T) {
	for _, size := range []int{1, 2, 3, 4, 5} {
		for occupied := range 1 << size {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(size)
				busy := 0
				c.occupy(t, func(i int) bool {
					if occupied&(1<<i) != 0 {
						busy++
						return true
					}
					return false
				})
				a, err := c.Acquire(t.Context(), mutexRequest("a.1"))
				if err != nil {
					t.Fatal(err)
				}
				want := engine.Busy
				if size-busy >= size/2+1 {
					want = engine.Granted
				}
				if a.Status != want {
					t.Errorf("%d of %d nodes occupied: got %+v, want %v", busy, size, a, want)
				}
				if a.Status == engine.Granted {
					c.mustRelease(t, engine.Held{ID: "a.1", Token: a.Token})
				} else if busy > size/2 && a.Holder.ID != "other.1" {
					t.Errorf("holder is %+v", a.Holder)
				}
				c.Leave("a")
				c.wantNothingOf(t, "a")
			})
		}
	}
}

// The answers of a majority come when the lease is nearly over.
func TestSlowMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		for _, n := range c.nodes[:2] {
			n.slow(0, 970*time.Millisecond)
		}
		r := mutexRequest("a.1")
		r.TTL = time.Second
		_, err := c.Acquire(t.Context(), r)
		if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "nearly over") {
			t.Errorf("got %v, want that it came too late", err)
		}
		c.Leave("a")
		c.wantNothingOf(t, "a")
		for _, n := range c.nodes {
			n.slow(0, 0)
		}
		c.mustAcquire(t, "b.1")
		c.Leave("b")
	})
}

// The TTL of a grant is the least of what a majority grants.
func TestTTLIsTheLeastOfAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.nodes[2].slow(time.Second, 0)
		held := c.mustAcquire(t, "a.1")
		time.Sleep(10 * time.Second)
		a, err := c.Acquire(t.Context(), mutexRequest("a.1"))
		if err != nil || a.Token != held.Token || a.TTL > long || a.TTL < long-time.Millisecond {
			t.Errorf("got %+v, %v, want the same token and the whole TTL", a, err)
		}
		c.Leave("a")
	})
}

// minorities are the sets of nodes that may fail.
func minorities(size int) [][]int {
	var all [][]int
	for set := range 1 << size {
		var nodes []int
		for i := range size {
			if set&(1<<i) != 0 {
				nodes = append(nodes, i)
			}
		}
		if len(nodes) > 0 && len(nodes) <= (size-1)/2 {
			all = append(all, nodes)
		}
	}
	return all
}

// Any minority fails, in any way and at any moment. No operation fails, and none but the first
// waits for it.
func TestMinorityFails(t *testing.T) {
	for _, size := range []int{3, 5} {
		for _, nodes := range minorities(size) {
			for _, what := range []fault{dead, hung, replyless} {
				for moment := range 3 {
					t.Run(fmt.Sprint(size, nodes, what, moment), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { failMinority(t, size, nodes, what, moment) })
					})
				}
			}
		}
	}
}

func failMinority(t *testing.T, size int, nodes []int, what fault, moment int) {
	c := newCluster(size)
	for _, n := range c.nodes {
		n.slow(100*time.Microsecond, 100*time.Microsecond)
	}
	fail := func(now int) {
		if now == moment {
			for _, i := range nodes {
				c.nodes[i].set(what)
			}
		}
	}
	for range 3 {
		c.mustRelease(t, c.mustAcquire(t, "a.0"))
	}
	fail(0)
	held := c.mustAcquire(t, "a.1")
	fail(1)
	if err := c.renew(t, held); err != nil {
		t.Errorf("Renew: %v", err)
	}
	fail(2)
	start := time.Now()
	c.mustRelease(t, held)
	if took := time.Since(start); took > 110*time.Millisecond {
		t.Errorf("the release took %v", took)
	}
	slow := 0
	for i := range 20 {
		start := time.Now()
		h := c.mustAcquire(t, fmt.Sprintf("a.%d", 10+i))
		if a, err := c.Acquire(t.Context(), mutexRequest("b.1")); err != nil || a.Status != engine.Busy {
			t.Fatalf("got %+v, %v, want busy", a, err)
		}
		c.mustRelease(t, h)
		if time.Since(start) > time.Millisecond {
			slow++
		}
	}
	if slow > 6 {
		t.Errorf("%d of 20 were slow", slow)
	}
	for _, i := range nodes {
		c.nodes[i].set(healthy)
	}
	synctest.Wait()
	time.Sleep(time.Minute)
	c.Leave("a")
	c.Leave("b")
	c.wantNothingOf(t, "a")
	c.wantNothingOf(t, "b")
}

// A majority fails: the error comes within the caller's ctx, and says how many answered.
func TestMajorityFails(t *testing.T) {
	for _, what := range []fault{dead, hung} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			held := c.mustAcquire(t, "b.1")
			c.nodes[0].set(what)
			c.nodes[2].set(what)
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := c.Acquire(ctx, mutexRequest("a.1"))
			// Two nodes that refuse decide, even if the third has not answered.
			if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "of 3 nodes answered") {
				t.Errorf("got %v, want ErrUnavailable and how many answered", err)
			}
			if took := time.Since(start); took > 700*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			want := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "of 3 nodes") {
					t.Errorf("%s: got %v, want ErrUnavailable and how many answered", what, err)
				}
			}
			want("Renew", c.renew(t, held))
			want("Release", c.Release(t.Context(), engine.Release{Resource: stock, Held: held}))
			want("Break", c.Break(t.Context(), stock, engine.Break{ID: held.ID}))
			_, err = c.Snapshot(t.Context(), stock)
			want("Snapshot", err)
			_, err = c.Now(t.Context())
			want("Now", err)
			_, err = c.Listen(t.Context(), stock.Prefix, "a", func(engine.Wakeup) {})
			want("Listen", err)
			for _, err := range c.List(t.Context(), stock.Prefix, "*") {
				want("List", err)
			}
			c.Leave("a")
			c.Leave("b")
			for _, n := range c.nodes {
				n.set(healthy)
			}
			c.mustRelease(t, held) // again: the first release was not confirmed
			c.mustRelease(t, c.mustAcquire(t, "c.1"))
			c.Leave("b")
			c.Leave("c")
		})
	}
}

// A node that hangs for long keeps no goroutines and hardly any calls.
func TestHungNodeIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.nodes[1].set(hung)
		before := 0
		for i := range 2000 {
			c.mustRelease(t, c.mustAcquire(t, fmt.Sprintf("a.%d", i)))
			time.Sleep(time.Millisecond)
			if i == 999 {
				before = c.nodes[1].count()
			}
		}
		if calls := c.nodes[1].count() - before; calls > 50 {
			t.Errorf("%d calls of a hung node in a second", calls)
		}
		c.Leave("a")
		time.Sleep(2 * ownTimeout) // until the first calls of the hung node have ended
	})
}

// Nodes stop answering while a caller locks and unlocks. They have a few calls in flight at a time,
// and hundreds of releases wait in a list, not in goroutines. When the nodes are resumed, the calls
// in the list are made.
func TestSilentNodesKeepFewCallsAndGoroutines(t *testing.T) {
	for _, what := range []fault{hung, stopped} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(5)
			for _, n := range c.nodes {
				n.slow(100*time.Microsecond, 100*time.Microsecond)
			}
			pairs := func(from, n int) {
				for i := range n {
					c.mustRelease(t, c.mustAcquire(t, fmt.Sprintf("a.%d", from+i)))
				}
			}
			var held []engine.Held
			for i := range 500 {
				r := mutexRequest(fmt.Sprintf("a.%d", i))
				r.Resource.Name = r.ID
				held = append(held, c.mustGrant(t, r))
			}
			time.Sleep(time.Millisecond)
			before := runtime.NumGoroutine()
			for _, n := range c.nodes[:2] {
				n.set(what)
			}
			pairs(1000, 1000)
			for _, h := range held {
				r := engine.Release{Resource: engine.Resource{Prefix: stock.Prefix, Name: h.ID}, Held: h}
				if err := c.Release(t.Context(), r); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
			if more := runtime.NumGoroutine() - before; more > 40 {
				t.Errorf("%d goroutines more", more)
			}
			for i, n := range c.nodes[:2] {
				if n.mostOpen > 24 {
					t.Errorf("node %d had %d calls open", i+1, n.mostOpen)
				}
				n.set(healthy)
			}
			time.Sleep(10 * time.Second)
			c.wantNothingOf(t, "a")
			c.Leave("a")
		})
	}
}

// A client leaves without waiting for nodes that do not answer, and its leases there end by their
// TTL.
func TestLeaveDoesNotWaitForSilentNodes(t *testing.T) {
	for _, what := range []fault{dead, hung, stopped} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(5)
			held := c.mustAcquire(t, "a.1")
			time.Sleep(time.Millisecond)
			for _, n := range c.nodes[:2] {
				n.set(what)
			}
			c.mustRelease(t, held)
			time.Sleep(suspect)
			start := time.Now()
			c.Leave("a")
			if took := time.Since(start); took > 250*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			for _, n := range c.nodes {
				n.set(healthy)
			}
			time.Sleep(long + 2*ownTimeout)
			c.wantNothingOf(t, "a")
		})
	}
}

// suspect is the time after which a silent node counts as down.
const suspect = 300 * time.Millisecond

// Nodes are restarted one after the other, each for longer than the TTL and once without its data,
// while a lease is held and renewed.
func TestLeaseOutlivesEveryNode(t *testing.T) {
	for _, empty := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			r := mutexRequest("a.1")
			r.TTL = 3 * time.Second
			a, err := c.Acquire(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			held := engine.Held{ID: r.ID, Token: a.Token}
			renew := func(times int) {
				for range times {
					time.Sleep(time.Second)
					if err := c.Renew(t.Context(), []engine.Renewal{{Resource: stock, Held: held, TTL: 3 * time.Second}})[0]; err != nil {
						t.Fatalf("Renew: %v", err)
					}
				}
			}
			for range 2 {
				for _, n := range c.nodes {
					n.set(hung)
					renew(5)
					if empty {
						n.Engine = memory.New()
					}
					n.set(healthy)
					renew(3)
				}
			}
			if a, err := c.Acquire(t.Context(), mutexRequest("b.1")); err != nil || a.Status != engine.Busy || a.Holder.ID != "a.1" || a.Holder.Token != held.Token {
				t.Errorf("got %+v, %v, want busy with the lease", a, err)
			}
			s, err := c.Snapshot(t.Context(), stock)
			if err != nil || len(s.Holders) != 1 || s.Holders[0].Token != held.Token || s.Holders[0].ID != "a.1" {
				t.Errorf("got %+v, %v, want one holder", s, err)
			}
			c.mustRelease(t, held)
			next := c.mustAcquire(t, "b.1")
			if next.Token <= held.Token {
				t.Errorf("token %d after %d", next.Token, held.Token)
			}
			c.mustRelease(t, next)
			c.Leave("a")
			c.Leave("b")
			c.wantNothingOf(t, "a")
			c.wantNothingOf(t, "b")
		})
	}
}

// A lease that no majority has is not restored.
func TestLostLeaseIsNotRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		held := c.mustAcquire(t, "a.1")
		synctest.Wait() // otherwise the request might reach the new engine
		c.nodes[0].Engine, c.nodes[1].Engine = memory.New(), memory.New()
		var gone *engine.NotHeldError
		if err := c.renew(t, held); !errors.As(err, &gone) || gone.Cause != engine.CauseDeleted {
			t.Errorf("got %v, want not held: deleted", err)
		}
		c.Leave("a")
		for i, n := range c.nodes[:2] {
			if s, _ := n.Engine.Snapshot(t.Context(), stock); len(s.Holders) != 0 {
				t.Errorf("node %d has %+v", i+1, s)
			}
		}
	})
}

// A node that is always the last to answer keeps no tombstone for each lease that was released
// before it answered.
func TestSlowNodeGetsNoWithdrawals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.nodes[1].slow(10*time.Millisecond, 10*time.Millisecond)
		for i := range 100 {
			c.mustRelease(t, c.mustAcquire(t, fmt.Sprintf("a.%d", i)))
			time.Sleep(time.Millisecond)
		}
		c.Leave("a")
		c.wantNothingOf(t, "a")
		if n := c.nodes[1].withdrawn; n > 0 {
			t.Errorf("%d withdrawals", n)
		}
	})
}
