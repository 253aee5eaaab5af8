package quorum_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// A lease that is held for longer is on all nodes, under one ID and token, until it is released.
func TestALeaseIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, voters, spares := warmed(t, 5)
		h := c.mustAcquire(t, "a.1")
		time.Sleep(quorum.SpreadDelay + time.Millisecond)
		for _, n := range c.nodes {
			s, err := n.Engine.Snapshot(t.Context(), stock)
			if err != nil || len(s.Holders) != 1 || s.Holders[0].Token != h.Token {
				t.Errorf("%+v, %v", s, err)
			}
		}
		for _, n := range voters[:2] {
			n.set(dead)
		}
		if err := c.renew(t, h); err != nil {
			t.Errorf("Renew with two voters dead: %v", err)
		}
		for _, n := range voters {
			n.set(healthy)
		}
		c.mustRelease(t, h)
		time.Sleep(time.Second)
		c.wantNothingOf(t, "a")
		if n := spares[0].withdrawn; n > 0 {
			t.Errorf("%d withdrawals", n)
		}
		c.leaveAll("warm", "a")
	})
}

// A spare that has granted a later token refuses the lease: it is not evidence that no other lease
// was there meanwhile. The renewal restores the lease with a new token, which counts from the next on.
func TestASpareThatGrantedALaterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, voters, spares := warmed(t, 5)
		h := c.mustAcquire(t, "a.1")
		for _, n := range spares {
			r := mutexRequest("other.1")
			r.Ballot = h.Token + 1
			if a, err := n.Engine.Acquire(t.Context(), r); err != nil || a.Status != engine.Granted {
				t.Fatalf("got %+v, %v", a, err)
			}
			if err := n.Engine.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: "other.1", Token: r.Ballot}}); err != nil {
				t.Fatal(err)
			}
		}
		voters[0].set(dead)
		if err := c.renew(t, h); err == nil {
			t.Error("the lease was renewed by nodes that may have had another one meanwhile")
		}
		voters[0].set(healthy)
		time.Sleep(time.Second)
		if err := c.renew(t, h); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		voters[0].set(dead)
		if err := c.renew(t, h); err != nil {
			t.Error(err)
		}
		c.mustRelease(t, h)
		voters[0].set(healthy)
		time.Sleep(2 * time.Second)
		c.leaveAll("warm", "a")
	})
}

// A voter dies just after the grant, and another process tries the lock before the lease is spread, so that the
// spares refuse it. The lease goes on.
func TestAVoterDiesBeforeTheSpread(t *testing.T) {
	for _, size := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			c, voters, _ := warmed(t, size)
			other := c.otherProcess()
			other.mustRelease(t, other.mustAcquire(t, "b.0"))
			time.Sleep(time.Second)
			h := c.mustAcquire(t, "a.1")
			voters[0].set(dead)
			other.sameNode(c, voters[0]).set(dead)
			if a, err := other.Acquire(t.Context(), mutexRequest("b.1")); err != nil || a.Status != engine.Busy {
				t.Fatalf("got %+v, %v", a, err)
			}
			c.wantRenewedLater(t, h)
			if a, err := other.Acquire(t.Context(), mutexRequest("b.2")); err != nil || a.Status != engine.Busy {
				t.Errorf("beside the holder: %+v, %v", a, err)
			}
			c.mustRelease(t, h)
			voters[0].set(healthy)
			other.sameNode(c, voters[0]).set(healthy)
			time.Sleep(time.Minute)
			c.wantNothingOf(t, "a")
			c.leaveAll("warm", "a")
			other.leaveAll("a", "b")
			time.Sleep(time.Minute)
		})
	}
}

// Two ballots divide the nodes, and one of those that granted the lease dies before the first renewal. The node
// that refused it takes that one's place.
func TestAGrantingNodeDiesBeforeTheFirstRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, voters, _ := warmed(t, 3)
		rival := acquireOn(t, voters[0].Engine, "other.1")
		h := c.mustAcquire(t, "a.1") // on the other voter and the spare
		releaseOn(t, voters[0].Engine, rival)
		time.Sleep(time.Second)
		voters[1].set(dead)
		c.wantRenewedLater(t, h)
		c.mustRelease(t, h)
		voters[1].set(healthy)
		time.Sleep(time.Minute)
		c.wantNothingOf(t, "a")
		c.leaveAll("warm", "a")
		time.Sleep(time.Minute)
	})
}

// wantRenewedLater checks that the second renewal of a lease succeeds; the first may find it on too few nodes.
func (c *cluster) wantRenewedLater(t *testing.T, h engine.Held) {
	t.Helper()
	travel(long / 4)
	_ = c.renew(t, h)
	travel(time.Second)
	if err := c.renew(t, h); err != nil {
		t.Errorf("the lease is lost: %v", err)
	}
}

// A lease that is marked at its release before it was spread, while one of its nodes fails.
func TestAMarkBeforeTheSpread(t *testing.T) {
	for _, what := range []fault{dead, hung} {
		synctest.Test(t, func(t *testing.T) {
			c, voters, _ := warmed(t, 5)
			h := c.mustAcquire(t, "a.1")
			voters[1].set(what)
			if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: h, Mark: time.Hour}); err != nil {
				t.Errorf("fault %v: %v", what, err)
			}
			if a, err := c.Acquire(t.Context(), mutexRequest("b.1")); err != nil || a.Status != engine.Marked {
				t.Errorf("fault %v: got %+v, %v, want it marked", what, a, err)
			}
			voters[1].set(healthy)
			time.Sleep(2 * ownTimeout)
			c.leaveAll("warm", "a", "b")
		})
	}
}

// A client that leaves with a lease, as with a ticket of it, has spread it.
func TestLeaveSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, spares := warmed(t, 5)
		c.mustAcquire(t, "a.1")
		c.leaveAll("a")
		for _, n := range spares {
			if !c.holds(t, n, "a.1") {
				t.Error("a spare does not have the lease")
			}
		}
		c.leaveAll("warm")
		time.Sleep(long)
	})
}

// An operator breaks a lease before it is spread, and cannot reach a voter. The spread does not give the
// lease a majority again.
func TestABreakBeforeTheSpread(t *testing.T) {
	for _, force := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, voters, _ := warmed(t, 5)
			other := c.otherProcess()
			h := c.mustAcquire(t, "a.1")
			other.sameNode(c, voters[0]).set(dead)
			if err := other.Break(t.Context(), stock, engine.Break{ID: h.ID, Token: h.Token, Force: force}); err != nil {
				t.Errorf("Break: %v", err)
			}
			time.Sleep(5 * quorum.SpreadDelay)
			err := c.renew(t, h)
			if gone, ok := errors.AsType[*engine.NotHeldError](err); !ok || gone.Cause != engine.CauseBroken {
				t.Errorf("Renew after the break: %v", err)
			}
			other.sameNode(c, voters[0]).set(healthy)
			time.Sleep(ownTimeout)
			_ = c.Release(t.Context(), engine.Release{Resource: stock, Held: h})
			time.Sleep(time.Second)
			c.wantNothingOf(t, "a")
			c.leaveAll("warm", "a")
			other.leaveAll("a")
		})
	}
}

// A lease is ended by force, as a signal ends that of a waiter, while its request is on its way to some
// nodes. They refuse it, since its owner does not release it.
func TestAForcedBreakDuringTheSpread(t *testing.T) {
	for _, sameProcess := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, _, spares := warmed(t, 5)
			other := c
			if !sameProcess {
				other = c.otherProcess()
			}
			for _, n := range spares { // they get the owner's calls late
				n.slow(10*quorum.SpreadDelay, 0)
			}
			h := c.mustAcquire(t, "a.1")
			if err := other.Break(t.Context(), stock, engine.Break{ID: h.ID, Token: h.Token, Force: true}); err != nil {
				t.Errorf("Break: %v", err)
			}
			time.Sleep(time.Second)
			c.wantNothingOf(t, "a")
			c.leaveAll("warm", "a")
			if other != c {
				other.leaveAll("a")
			}
		})
	}
}

// sameNode returns the node of c that is n in another process.
func (c *cluster) sameNode(other *cluster, n *faultyNode) *faultyNode {
	return c.nodes[slices.Index(other.nodes, n)]
}

// Another process releases a lease before it is spread, also one that it has renewed before. What is
// spread later is refused, so that the resource is free.
func TestAReleaseByAnotherProcessBeforeTheSpread(t *testing.T) {
	for _, adopts := range []bool{false, true} {
		for _, what := range []fault{healthy, dead} {
			synctest.Test(t, func(t *testing.T) {
				c, voters, spares := warmed(t, 5)
				other := c.otherProcess()
				h := c.mustAcquire(t, "a.1")
				if adopts {
					for _, n := range spares { // they answer the renewal after the release
						other.sameNode(c, n).slow(3*time.Millisecond, 3*time.Millisecond)
					}
					if err := other.renew(t, h); err != nil {
						t.Fatal(err)
					}
				}
				other.sameNode(c, voters[0]).set(what)
				if err := other.Release(t.Context(), engine.Release{Resource: stock, Held: h}); err != nil && what == healthy {
					t.Errorf("Release: %v", err)
				}
				time.Sleep(5 * quorum.SpreadDelay)
				other.mustRelease(t, other.mustAcquire(t, "b.1"))
				other.sameNode(c, voters[0]).set(healthy)
				time.Sleep(ownTimeout)
				c.wantNothingOf(t, "a")
				c.leaveAll("warm", "a")
				other.leaveAll("a", "b")
			})
		}
	}
}

// A lease that has expired is not spread, and one that was released while its request waited for a slow
// spare is not requested there.
func TestAnEndedLeaseIsNotSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, spares := warmed(t, 5)
		before := spares[0].count() + spares[1].count()
		r := mutexRequest("a.1")
		r.TTL = quorum.SpreadDelay / 2
		c.mustGrant(t, r)
		time.Sleep(5 * quorum.SpreadDelay)
		if calls := spares[0].count() + spares[1].count() - before; calls > 0 {
			t.Errorf("the spares got %d calls for an expired lease", calls)
		}

		spares[0].set(stopped)
		for range 4 {
			go c.Snapshot(t.Context(), stock)
		}
		time.Sleep(time.Millisecond)
		h := c.mustAcquire(t, "a.2")
		time.Sleep(2 * quorum.SpreadDelay)
		before = spares[0].count()
		c.mustRelease(t, h)
		spares[0].set(healthy)
		time.Sleep(ownTimeout)
		if calls := spares[0].count() - before; calls > 0 {
			t.Errorf("a spare got %d calls for a lease that was released", calls)
		}
		c.wantNothingOf(t, "a")
		c.leaveAll("warm", "a")
	})
}
