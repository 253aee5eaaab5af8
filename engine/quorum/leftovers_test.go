package quorum_test

import (
	"context"
	"errors"
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
// refuses the old one from then on: otherwise the old one could be granted beside the new.
func TestALeaseIsNotRestoredBesideItsOldRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		late := make(chan engine.Request, 1)
		c.nodes[2].Engine = lateRequest{c.nodes[2].Engine, late}
		h := c.mustAcquire(t, "mine.a")
		time.Sleep(time.Second) // the request has failed there
		request := <-late
		for range 3 {
			if err := c.renew(t, h); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		node := c.nodes[2].Engine.(lateRequest).Engine
		if s, _ := node.Snapshot(t.Context(), stock); len(s.Holders) != 1 {
			t.Fatalf("it was not restored: %+v", s.Holders)
		}
		c.mustRelease(t, h)
		time.Sleep(time.Second)
		_, _ = node.Acquire(t.Context(), request)
		c.nodes[2].Engine = node
		c.wantNothingOf(t, "mine")
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}

// lateRequest loses the first request, which late receives.
type lateRequest struct {
	engine.Engine
	late chan engine.Request
}

func (l lateRequest) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	select {
	case l.late <- r:
		return engine.Answer{}, engine.ErrUnavailable
	default:
		return l.Engine.Acquire(ctx, r)
	}
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
