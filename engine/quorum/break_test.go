package quorum_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// breakCase is a break of a lease while no node or one node is down.
type breakCase struct {
	what  fault
	force bool
}

// acquireWithin tries every 50 ms until the lease is granted, and returns the time that it took.
func (c *cluster) acquireWithin(t *testing.T, id string, most time.Duration) time.Duration {
	t.Helper()
	for start := time.Now(); ; <-time.After(50 * time.Millisecond) {
		a, err := c.Acquire(t.Context(), mutexRequest(id))
		took := time.Since(start)
		switch {
		case err == nil && a.Status == engine.Granted:
			return took
		case took > most:
			t.Fatalf("not granted in %v: %+v, %v", took, a, err)
		}
	}
}

// A break notifies the holder at once and ends renewal. The next waiter is granted when the holder
// has released the lease, or at its deadline; with Force, at once. A node that was down and is
// back after the break does not change this.
func TestBreakWaitsForTheHolder(t *testing.T) {
	for _, k := range []breakCase{{healthy, false}, {dead, false}, {hung, false}, {stopped, false}, {healthy, true}, {dead, true}, {hung, true}} {
		for _, gives := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				told := make(chan time.Time, 10)
				l, err := c.Listen(t.Context(), stock.Prefix, "holder", func(w engine.Wakeup) {
					if w.Kind == engine.WakeBroken && w.ID == "holder.1" {
						told <- time.Now()
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				h := c.mustAcquire(t, "holder.1")
				synctest.Wait()
				<-time.After(2 * time.Second)
				if err := c.renew(t, h); err != nil {
					t.Fatal(err)
				}
				renewed := time.Now()
				operator := c.otherProcess()
				c.nodes[2].set(k.what)
				operator.nodes[2].set(k.what)
				broken := time.Now()
				if err := operator.Break(t.Context(), stock, engine.Break{ID: h.ID, Force: k.force}); err != nil {
					t.Fatalf("%+v: %v", k, err)
				}
				synctest.Wait()
				if len(told) == 0 || (<-told).Sub(broken) > 100*time.Millisecond {
					t.Errorf("%+v: the holder was not told in time", k)
				}
				other := c.otherProcess()
				other.nodes[2].set(healthy)
				if !k.force {
					if a, err := other.Acquire(t.Context(), mutexRequest("other.1")); err != nil || a.Status != engine.Busy || a.Holder.ID != h.ID {
						t.Errorf("%+v: beside the holder: %+v, %v", k, a, err)
					}
				}
				<-time.After(time.Second)
				c.heal()
				operator.nodes[2].set(healthy)
				var gone *engine.NotHeldError
				if err := c.renew(t, h); !errors.As(err, &gone) || gone.Cause != engine.CauseBroken {
					t.Errorf("%+v: renewed: %v", k, err)
				}
				synctest.Wait()
				if !k.force {
					if a, err := other.Acquire(t.Context(), mutexRequest("other.2")); err != nil || a.Status != engine.Busy {
						t.Errorf("%+v: beside the holder that was told: %+v, %v", k, a, err)
					}
				}
				if gives && !k.force {
					if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: h}); !errors.As(err, &gone) {
						t.Errorf("%+v: released: %v", k, err)
					}
				}
				took := other.acquireWithin(t, "other.3", long)
				if (gives || k.force) && took > time.Second {
					t.Errorf("%+v: it took %v after the release", k, took)
				}
				if !gives && !k.force && time.Since(renewed) < long {
					t.Errorf("%+v: granted %v before the deadline", k, long-time.Since(renewed))
				}
				<-time.After(time.Minute)
				c.Leave("holder")
				operator.Leave("holder")
				other.Leave("other")
			})
		}
	}
}

// Two nodes of five still have the first ballot of a lease with a mark when the lease is broken, and
// two others get the release before the break. The break ends when a majority has broken the lease,
// not the ballot, so its release reports the break.
func TestBreakBeforeTheLeaseIsOnAllNodes(t *testing.T) {
	for _, slow := range []time.Duration{10 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(fmt.Sprint("the holder's process, requests take ", slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(5)
				breakBeforeTheLeaseIsOnAllNodes(t, c, c, slow)
			})
		})
		t.Run(fmt.Sprint("another process, requests take ", slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(5)
				breakBeforeTheLeaseIsOnAllNodes(t, c, c.otherProcess(), slow)
			})
		})
	}
}

func breakBeforeTheLeaseIsOnAllNodes(t *testing.T, c, operator *cluster, slow time.Duration) {
	for _, n := range c.nodes {
		n.slow(0, 10*time.Millisecond)
	}
	time.AfterFunc(5*time.Millisecond, func() { // the second ballot
		c.nodes[3].slow(5*slow, 0)
		c.nodes[4].slow(5*slow, 0)
	})
	a, err := c.Acquire(t.Context(), marked("holder.1", long))
	if err != nil || a.Status != engine.Granted {
		t.Fatalf("got %+v, %v, want a grant", a, err)
	}
	synctest.Wait() // the release of the first ballot is under way
	for i := range c.nodes {
		for _, process := range []*cluster{c, operator} {
			process.nodes[i].slow(0, 0)
			if i == 1 || i == 2 {
				process.nodes[i].slow(slow, 0)
			}
		}
	}
	if err := operator.Break(t.Context(), stock, engine.Break{ID: "holder.1"}); err != nil {
		t.Fatal(err)
	}
	err = c.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: "holder.1", Token: a.Token}})
	if gone, ok := errors.AsType[*engine.NotHeldError](err); !ok || gone.Cause != engine.CauseBroken {
		t.Errorf("released: %v, want that the lease was broken", err)
	}
	c.Leave("holder")
	operator.Leave("holder")
	<-time.After(time.Minute)
}

// A node that is down during a break gets it when it is back.
func TestBreakIsRepeated(t *testing.T) {
	for _, force := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			h := c.mustAcquire(t, "holder.1")
			synctest.Wait()
			operator := c.otherProcess()
			operator.nodes[0].set(dead)
			if err := operator.Break(t.Context(), stock, engine.Break{ID: h.ID, Force: force}); err != nil {
				t.Fatal(err)
			}
			operator.nodes[0].set(healthy)
			<-time.After(5 * time.Second)
			s, err := c.nodes[0].Engine.Snapshot(t.Context(), stock)
			if err != nil || !force && !(len(s.Holders) == 1 && s.Holders[0].Breaking) || force && len(s.Holders) > 0 {
				t.Errorf("force %v: the node that was down has %+v, %v", force, s.Holders, err)
			}
			<-time.After(time.Minute)
			c.Leave("holder")
			operator.Leave("holder")
		})
	}
}

// A node that is down when a mark is broken gets the break when it is back. Otherwise nothing is granted, for as
// long as the mark lasts, while another node is down.
func TestBreakOfAMarkIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		h := c.mustAcquire(t, "a.1")
		time.Sleep(time.Second)
		if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: h, Mark: 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.nodes[2].set(dead)
		if err := c.Break(t.Context(), stock, engine.Break{ID: engine.MarkID}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.nodes[2].set(healthy)
		time.Sleep(time.Minute)
		if s, err := c.nodes[2].Engine.Snapshot(t.Context(), stock); err != nil || s.Marked > 0 {
			t.Errorf("the node that was down is marked for another %v, %v", s.Marked, err)
		}
		c.nodes[1].set(dead)
		if a, err := c.Acquire(t.Context(), mutexRequest("a.2")); err != nil || a.Status != engine.Granted {
			t.Errorf("one node of three is dead: %+v, %v", a, err)
		}
		c.leaveAll("a", "")
		time.Sleep(time.Minute)
	})
}

// A break that one node of three has made is not confirmed: the others may keep the lease.
func TestBreakByAMinority(t *testing.T) {
	for _, k := range []breakCase{{dead, false}, {hung, false}, {dead, true}, {hung, true}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			h := c.mustAcquire(t, "holder.1")
			synctest.Wait()
			operator := c.otherProcess()
			operator.nodes[0].set(k.what)
			operator.nodes[2].set(k.what)
			if err := operator.Break(t.Context(), stock, engine.Break{ID: h.ID, Force: k.force}); !errors.Is(err, engine.ErrUnavailable) {
				t.Errorf("%+v: got %v, want ErrUnavailable", k, err)
			}
			c.Leave("holder")
			operator.Leave("holder")
			<-time.After(time.Minute)
		})
	}
}

// Any node can notify the holder.
func TestBreakIsReportedByAnyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		told := 0
		l, err := c.Listen(t.Context(), stock.Prefix, "holder", func(w engine.Wakeup) {
			if w.Kind == engine.WakeBroken && w.ID == "holder.1" {
				told++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		h := c.mustAcquire(t, "holder.1")
		synctest.Wait()
		operator := c.otherProcess()
		for _, n := range c.nodes {
			s, err := n.Engine.Snapshot(t.Context(), stock)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Engine.Break(t.Context(), stock, engine.Break{ID: s.Holders[0].ID}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if told != 1 {
				t.Errorf("told %d times", told)
			}
		}
		_ = l.Close()
		var gone *engine.NotHeldError
		if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: h}); !errors.As(err, &gone) {
			t.Error(err)
		}
		c.Leave("holder")
		operator.Leave("holder")
		<-time.After(time.Minute)
	})
}

// The first node notifies the holder, which releases the lease on all nodes before the break
// reaches the others. The break is reported as the cause.
func TestBreakWhoseHolderReleasesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		told := make(chan struct{}, 1)
		l, err := c.Listen(t.Context(), stock.Prefix, "holder", func(w engine.Wakeup) {
			if w.Kind == engine.WakeBroken && w.ID == "holder.1" {
				told <- struct{}{}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		h := c.mustAcquire(t, "holder.1")
		released := make(chan error)
		go func() {
			<-told
			released <- c.Release(t.Context(), engine.Release{Resource: stock, Held: h})
		}()
		operator := c.otherProcess()
		operator.nodes[1].slow(10*time.Millisecond, 0)
		operator.nodes[2].slow(10*time.Millisecond, 0)
		if err := operator.Break(t.Context(), stock, engine.Break{ID: h.ID}); err != nil {
			t.Error(err)
		}
		<-released
		var gone *engine.NotHeldError
		if err := operator.Break(t.Context(), stock, engine.Break{ID: h.ID}); !errors.As(err, &gone) {
			t.Errorf("got %v for what has ended", err)
		}
		_ = l.Close()
		c.Leave("holder")
		operator.Leave("holder")
	})
}
