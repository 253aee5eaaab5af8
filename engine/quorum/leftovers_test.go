package quorum_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A lease that a majority has lost is released on the minority that still has it.
func TestAMinorityDoesNotKeepALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		h := c.mustAcquire(t, "mine.a")
		synctest.Wait()
		c.nodes[0].Engine, c.nodes[1].Engine = memory.New(), memory.New()
		var gone *engine.NotHeldError
		if err := c.renew(t, h); !errors.As(err, &gone) {
			t.Fatalf("got %v, want not held", err)
		}
		time.Sleep(time.Second)
		c.wantNothingOf(t, "mine")
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}

// A node that did not answer the request, and does not have the lease, gets a new request, and
// refuses the old one from then on: otherwise that one, if it arrives just before, is in the way.
func TestALeaseIsNotRestoredBesideItsOldRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		node := c.nodes[2].Engine
		c.nodes[2].Engine = &lateRequest{Engine: node}
		h := c.mustAcquire(t, "mine.a")
		time.Sleep(time.Second) // the request has failed there
		if err := c.renew(t, h); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s, _ := node.Snapshot(t.Context(), stock); len(s.Holders) != 1 {
			t.Fatalf("it was not restored: %+v", s.Holders)
		}
		c.mustRelease(t, h)
		time.Sleep(time.Second)
		c.wantNothingOf(t, "mine")
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}

// lateRequest does not answer the first request. It arrives just before the next one.
type lateRequest struct {
	engine.Engine
	mu    sync.Mutex
	first *engine.Request
}

func (l *lateRequest) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	l.mu.Lock()
	late := l.first
	l.first = &r
	l.mu.Unlock()
	if late == nil {
		return engine.Answer{}, engine.ErrUnavailable
	}
	travel(10 * time.Millisecond)
	if late.ID != r.ID {
		_, _ = l.Engine.Acquire(ctx, *late)
	}
	return l.Engine.Acquire(ctx, r)
}

// A lease that an operator broke on one node is not restored there: the break would be undone.
func TestABrokenLeaseIsNotRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		h := c.mustAcquire(t, "mine.a")
		synctest.Wait()
		s, err := c.nodes[0].Engine.Snapshot(t.Context(), stock)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.nodes[0].Engine.Break(t.Context(), stock, engine.Break{ID: s.Holders[0].ID, Force: true}); err != nil {
			t.Fatal(err)
		}
		for range 3 { // a majority has the lease, so it is renewed
			if err := c.renew(t, h); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if s, _ := c.nodes[0].Engine.Snapshot(t.Context(), stock); len(s.Holders) != 0 {
			t.Errorf("the node where it was broken has %+v", s.Holders)
		}
		c.mustRelease(t, h)
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}

// shortNode grants every lease for half of the time.
type shortNode struct{ engine.Engine }

func (n shortNode) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	r.TTL /= 2
	return n.Engine.Acquire(ctx, r)
}

// The TTL of a grant is one that a majority has granted, and not the longest.
func TestTTLIsThatOfAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		for _, n := range c.nodes[:2] {
			n.Engine = shortNode{n.Engine}
		}
		c.nodes[1].slow(0, time.Millisecond) // so the third is in the majority
		a, err := c.Acquire(t.Context(), mutexRequest("mine.a"))
		if err != nil || a.Status != engine.Granted || a.TTL != long/2 {
			t.Errorf("got %+v, %v; want a grant for %v", a, err, long/2)
		}
		c.Leave("mine")
	})
}
