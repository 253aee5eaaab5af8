package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// marked is a request for a lease with a mark that is set at the grant.
func marked(id string, ttl time.Duration) engine.Request {
	r := mutexRequest(id)
	r.Kind, r.TTL, r.Mark = engine.KindJob, ttl, time.Hour
	return r
}

// delayMarks delays the ballot that marks on two nodes, but not the calls after it.
func (c *cluster) delayMarks(by time.Duration) {
	for _, n := range c.nodes {
		n.slow(0, 10*time.Millisecond)
	}
	late := func(there time.Duration) func() {
		return func() {
			c.nodes[1].slow(there, 0)
			c.nodes[2].slow(there, 0)
		}
	}
	time.AfterFunc(5*time.Millisecond, late(by)) // the second round
	time.AfterFunc(15*time.Millisecond, late(0))
}

// The first client is cut off from two nodes between its two ballots. Its clean-up arrives long
// after the second client has done the work, and does not end the mark of the second client.
func TestFailedMarkLeavesAnothersMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1, p2 := clusterOn(mems), clusterOn(mems)
		for _, n := range p1.nodes {
			n.slow(0, 10*time.Millisecond)
		}
		time.AfterFunc(5*time.Millisecond, func() { p1.nodes[1].set(hung); p1.nodes[2].set(hung) })
		call, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if a, err := p1.Acquire(call, marked("one.a", 15*time.Second)); err == nil {
			t.Fatalf("got %+v, want too few nodes", a)
		}
		wd, cancel2 := context.WithTimeout(t.Context(), time.Second)
		_ = p1.Release(wd, engine.Release{Resource: stock, Held: engine.Held{ID: "one.a"}, Withdraw: true})
		cancel2()
		time.Sleep(14 * time.Second)
		b, err := p2.Acquire(t.Context(), marked("two.a", 15*time.Second))
		if err != nil || b.Status != engine.Granted {
			t.Fatalf("p2: %+v %v", b, err)
		}
		if err := p2.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: "two.a", Token: b.Token}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the first client is connected again
		p1.nodes[1].set(healthy)
		p1.nodes[2].set(healthy)
		time.Sleep(5 * time.Second)
		d, err := p2.Acquire(t.Context(), marked("two.b", 15*time.Second))
		if err != nil || d.Status != engine.Marked {
			t.Errorf("the work was done; then %v, %v, want Marked", d.Status, err)
		}
		p1.Leave("one")
		p2.Leave("two")
		<-time.After(2 * time.Minute)
	})
}

// The ballot that marks reaches two nodes late, after its clean-up.
func TestLateMarkIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1, p2 := clusterOn(mems), clusterOn(mems)
		p1.delayMarks(500 * time.Millisecond)
		call, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if a, err := p1.Acquire(call, marked("one.a", 15*time.Second)); err == nil {
			t.Fatalf("got %+v, want too few nodes", a)
		}
		_ = p1.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: "one.a"}, Withdraw: true})
		time.Sleep(20 * time.Second)
		b, err := p2.Acquire(t.Context(), marked("two.a", 15*time.Second))
		if err != nil || b.Status != engine.Granted {
			t.Errorf("the work was not done, and p2 gets %v %v", b.Status, err)
		}
		p1.Leave("one")
		p2.Leave("two")
		<-time.After(2 * time.Minute)
	})
}

// The ballot that marks reaches two nodes late, and the attempt is repeated.
func TestLateMarkIsNotInTheWayOfTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mems := memories(3)
		p1 := clusterOn(mems)
		p1.delayMarks(2200 * time.Millisecond)
		if a, err := p1.Acquire(t.Context(), marked("one.a", 15*time.Second)); err == nil {
			t.Fatalf("got %+v, want too few nodes", a)
		}
		time.Sleep(500 * time.Millisecond) // the release is repeated, within seconds
		a, err := p1.Acquire(t.Context(), marked("one.a", 15*time.Second))
		if err != nil || a.Status != engine.Granted {
			t.Errorf("the work was not done, and the retry gets %v %v", a.Status, err)
		}
		p1.Leave("one")
		<-time.After(2 * time.Minute)
	})
}

// The client is cut off from a node on which its ballot has set a mark. The lease ends there before the
// withdrawal arrives, which then ends the mark all the same.
func TestAMarkWhoseLeaseEndedBeforeItsWithdrawal(t *testing.T) {
	for _, broken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mems := memories(3)
			p1, p2 := clusterOn(mems), clusterOn(mems)
			p1.delayMarks(15 * time.Millisecond)
			time.AfterFunc(15*time.Millisecond, func() { p1.nodes[0].set(hung); p1.nodes[1].set(dead); p1.nodes[2].set(dead) })
			call, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if a, err := p1.Acquire(call, marked("one.a", 10*time.Second)); err == nil {
				t.Fatalf("got %+v, want too few nodes", a)
			}
			_ = p1.Release(call, engine.Release{Resource: stock, Held: engine.Held{ID: "one.a"}, Withdraw: true})
			s, err := mems[0].Snapshot(t.Context(), stock)
			if err != nil || len(s.Holders) != 1 || s.Marked == 0 {
				t.Fatalf("got %+v, %v, want a lease and its mark", s, err)
			}
			if broken {
				if err := mems[0].Break(t.Context(), stock, engine.Break{ID: s.Holders[0].ID}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(12 * time.Second)
			_, _ = p2.Acquire(t.Context(), marked("two.a", 10*time.Second)) // the node finds that the lease has expired
			p2.withdraw(t, "two.a")
			for _, n := range p1.nodes {
				n.set(healthy)
			}
			time.Sleep(time.Minute)
			if s, err := mems[0].Snapshot(t.Context(), stock); err != nil || s.Marked > 0 {
				t.Errorf("broken %v: marked for another %v by %q, %v", broken, s.Marked, s.MarkedBy.ID, err)
			}
			p1.Leave("one")
			p2.Leave("two")
			time.Sleep(time.Minute)
		})
	}
}

// Nodes are down for longer than the TTL, one after the other. They keep the mark, which was set by
// the lease itself.
func TestMarkedNodeRestoresTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		a, err := c.Acquire(t.Context(), marked("mine.a", 15*time.Second))
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a, err)
		}
		h := engine.Held{ID: "mine.a", Token: a.Token}
		renew := func() error {
			return c.Renew(t.Context(), []engine.Renewal{{Resource: stock, Held: h, TTL: 15 * time.Second}})[0]
		}
		for i, n := range c.nodes {
			n.set(dead)
			for s := range 10 {
				if s == 5 {
					n.set(healthy)
				}
				time.Sleep(5 * time.Second)
				if err := renew(); err != nil {
					t.Errorf("only node %d was down: %v", i+1, err)
				}
			}
		}
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}

// A mark counts from the grant. Nodes on which the lease is restored, one after the other, do not prolong it.
func TestARestoredLeaseKeepsTheEndOfItsMark(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			h := c.mustGrant(t, marked("mine.a", long))
			end := time.Now().Add(time.Hour)
			holder := c
			if adopted {
				holder = clusterOn([]engine.Engine{c.nodes[0], c.nodes[1], c.nodes[2]})
			}
			renewFor := func(d time.Duration) {
				t.Helper()
				for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(long / 3) {
					if err := holder.renew(t, h); err != nil {
						t.Fatal(err)
					}
				}
			}
			renewFor(20 * time.Minute)
			for i, n := range c.nodes {
				if i == 0 {
					n.set(dead) // for longer than the TTL
					renewFor(2 * long)
					n.set(healthy)
				} else {
					n.mu.Lock()
					n.Engine = memory.New()
					n.mu.Unlock()
				}
				renewFor(10 * time.Minute)
			}
			s, err := c.Snapshot(t.Context(), stock)
			if left := time.Until(end); err != nil || s.Marked < left-time.Second || s.Marked > left+time.Second {
				t.Errorf("adopted %v: marked for another %v, want %v (%v)", adopted, s.Marked, left, err)
			}
			holder.mustRelease(t, h)
			c.Leave("mine")
			holder.Leave("mine")
			time.Sleep(time.Minute)
		})
	}
}

// A break of a mark that reaches a node after the resource was marked again does not end the new
// mark: otherwise that work would be done again.
func TestLateBreakLeavesTheNextMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		done := func(id string) {
			t.Helper()
			h := c.mustAcquire(t, id)
			if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: h, Mark: time.Hour}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		c.nodes[2].set(dead)
		done("a.1") // the third node has no mark
		c.nodes[2].set(healthy)
		time.Sleep(time.Second)
		if _, err := c.Snapshot(t.Context(), stock); err != nil { // it answers again
			t.Fatal(err)
		}
		synctest.Wait()
		c.nodes[2].slow(time.Second, 0)
		if err := c.Break(t.Context(), stock, engine.Break{ID: engine.MarkID}); err != nil {
			t.Fatal(err)
		}
		c.nodes[2].slow(0, 0)
		c.nodes[0].set(dead)
		done("a.2")
		<-time.After(2 * time.Second) // the break arrives
		c.nodes[0].set(healthy)
		if a, err := c.otherProcess().Acquire(t.Context(), mutexRequest("b.1")); err != nil || a.Status != engine.Marked {
			t.Errorf("got %+v, %v, want it marked", a, err)
		}
		c.Leave("a")
		c.Leave("b")
		<-time.After(time.Minute)
	})
}

// A mark is on one node too few, another node does not respond, and the rest can grant the lease. If the mark
// ends, or if the silent node responds, soon, the request is answered. Otherwise the lease is unavailable
// and the error names the reason. The same holds for a request of another kind than the mark's.
func TestMarkOnSomeNodesWhileOneIsSilent(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		for _, kind := range []engine.Kind{engine.KindJob, engine.KindMutex} {
			for _, queue := range []bool{false, true} {
				r := mutexRequest("a.1")
				r.Kind, r.Queue = kind, queue
				for what, run := range map[string]func(*testing.T, *partlyMarked, engine.Request){
					"ends": markEndsSoon, "is on the silent node": silentNodeIsMarked, "lasts": markLasts,
				} {
					t.Run(fmt.Sprintf("the mark %s/%d nodes, %s, queue %v", what, nodes, kind, queue), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							c := &partlyMarked{cluster: newCluster(nodes), silent: nodes / 2}
							start := time.Now()
							run(t, c, r)
							if took := time.Since(start); took > 500*time.Millisecond {
								t.Errorf("it took %v", took)
							}
							c.nodes[c.silent].set(healthy)
							if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: r.ID}, Withdraw: true}); err != nil {
								t.Error(err)
							}
							<-time.After(time.Minute)
							c.wantNothingOf(t, "a")
							c.Leave("a")
							<-time.After(time.Minute)
						})
					})
				}
			}
		}
	}
}

// partlyMarked is a cluster with marks on the nodes before the silent one.
type partlyMarked struct {
	*cluster
	silent int
}

// mark marks the first nodes, and silences one.
func (c *partlyMarked) mark(t *testing.T, on int, lasts time.Duration) {
	t.Helper()
	r := marked("past.1", time.Millisecond)
	r.Mark = lasts
	for _, n := range c.nodes[:on] {
		if a, err := n.Engine.Acquire(t.Context(), r); err != nil || a.Status != engine.Granted {
			t.Fatal(a, err)
		}
	}
	<-time.After(2 * time.Millisecond) // the lease is over
	c.nodes[c.silent].set(hung)
}

func markEndsSoon(t *testing.T, c *partlyMarked, r engine.Request) {
	c.mark(t, c.silent, 50*time.Millisecond)
	if a, err := c.Acquire(t.Context(), r); err != nil || a.Status != engine.Granted {
		t.Errorf("got %+v, %v, want it granted", a, err)
	}
}

func silentNodeIsMarked(t *testing.T, c *partlyMarked, r engine.Request) {
	c.mark(t, c.silent+1, time.Hour)
	time.AfterFunc(50*time.Millisecond, func() { c.nodes[c.silent].set(healthy) })
	a, err := c.Acquire(t.Context(), r)
	if r.Kind == engine.KindJob && (err != nil || a.Status != engine.Marked) {
		t.Errorf("got %+v, %v, want it marked", a, err)
	}
	if r.Kind != engine.KindJob && !errors.Is(err, engine.ErrMismatch) {
		t.Errorf("got %+v, %v, want ErrMismatch", a, err)
	}
}

func markLasts(t *testing.T, c *partlyMarked, r engine.Request) {
	c.mark(t, c.silent, time.Hour)
	why := "marked as done"
	if r.Kind != engine.KindJob {
		why = engine.ErrMismatch.Error()
	}
	if a, err := c.Acquire(t.Context(), r); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), why) {
		t.Errorf("got %+v, %v, want it unavailable, %s", a, err, why)
	}
}

// An even number of nodes: marks on half of them exclude every lease, so the resource is marked.
// They are there if clients without the quorum use these nodes, as while a fleet moves to
// another store.
func TestMarksOnHalfOfTheNodes(t *testing.T) {
	for n, marks := range map[int]int{2: 1, 4: 2} {
		for on := range marks + 1 {
			t.Run(fmt.Sprintf("%d of %d", on, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mems := memories(n)
					c := clusterOn(mems)
					defer func() {
						c.Leave("one")
						<-time.After(2 * time.Minute)
					}()
					for i := range on {
						if a, err := mems[i].Acquire(t.Context(), marked(fmt.Sprintf("alone.%d", i), time.Minute)); err != nil || a.Status != engine.Granted {
							t.Fatalf("%+v %v", a, err)
						}
					}
					time.Sleep(2 * time.Minute) // the lease is over
					want := engine.Marked
					if on < marks {
						want = engine.Granted
					}
					a, err := c.Acquire(t.Context(), marked("one.a", time.Minute))
					if err != nil || a.Status != want {
						t.Fatalf("got %+v %v, want %v", a, err, want)
					}
					if want == engine.Granted {
						return
					}
					if s, err := c.Snapshot(t.Context(), stock); err != nil || s.Marked != a.Next || s.MarkedBy.ID == "" {
						t.Errorf("the snapshot is %+v %v, want it marked for %v", s, err, a.Next)
					}
					if err := c.Break(t.Context(), stock, engine.Break{ID: engine.MarkID}); err != nil {
						t.Error(err)
					}
					if a, err := c.Acquire(t.Context(), mutexRequest("one.b")); err != nil || a.Status != engine.Granted {
						t.Errorf("after the end of the mark: %+v %v", a, err)
					}
				})
			})
		}
	}
}
