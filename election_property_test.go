package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// electorate runs random programs of candidates, each client behind a network of
// its own, and watches the promises: see world.
type electorate struct {
	world
	observers []uint64 // the newest token each has seen
}

func drawCandidacy(t *rapid.T) step {
	s := drawStep(t)
	if s.Do == "lock" || s.Do == "try" {
		s.Do = rapid.SampledFrom([]string{"campaign", "campaign", "lead", "lead", "pause"}).Draw(t, "as")
	}
	s.Opts = rapid.SampledFrom([]string{"", "", "short"}).Draw(t, "ttl")
	return s
}

func (w *electorate) election(s step) *holdfast.Election {
	return w.clients[s.Client].Election("x", s.options()...)
}

// reign is what a leader does: it makes sure that it is alone, and goes when its
// time is over or its leadership is lost.
func (w *electorate) reign(l *holdfast.Lease, d time.Duration) {
	w.granted(l)
	select {
	case <-time.After(d):
	case <-l.Context().Done():
	}
	w.leaves(l)
}

// campaign tells whether it led.
func (w *electorate) campaign(s step) bool {
	ctx, cancel := context.WithTimeout(context.Background(), s.Wait)
	defer cancel()
	l, err := w.election(s).Campaign(ctx, "candidate")
	if err != nil {
		w.unexpected(err, holdfast.ErrNotAcquired)
		return false
	}
	w.reign(l, s.Hold)
	_ = l.Release(ctx) // lost, unreachable or done: all may be
	return true
}

// errEnough ends some of the Leads.
var errEnough = errors.New("enough")

func (w *electorate) lead(s step) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Wait)
	defer cancel()
	inside := false
	err := w.election(s).Lead(ctx, "leader", func(ctx context.Context) error {
		if inside {
			w.mu.Lock()
			w.fail("fn is called while it runs")
			w.mu.Unlock()
		}
		inside = true
		defer func() { inside = false }()
		w.reign(holdfast.LeaseFrom(ctx), s.Hold)
		if s.Sleep == 0 {
			return errEnough
		}
		return ctx.Err()
	})
	w.unexpected(err, errEnough, context.DeadlineExceeded)
}

func (w *electorate) unexpected(err error, expected ...error) {
	for _, e := range expected {
		if errors.Is(err, e) {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail("ended with %v", err)
}

// observe checks that an observer never goes back in time.
func (w *electorate) observe(ctx context.Context, client int) {
	vacant := false
	for l, err := range w.clients[client].Election("x").Observe(ctx) {
		w.mu.Lock()
		switch seen := w.observers[client]; {
		case err != nil:
			w.fail("observer: %v", err)
		case l.Token == 0 && vacant:
			w.fail("observer: nobody leads, twice")
		case l.Token != 0 && l.Token <= seen:
			w.fail("observer: token %d after %d", l.Token, seen)
		case l.Token != 0 && l.Value != "candidate" && l.Value != "leader":
			w.fail("observer: %+v", l)
		}
		vacant = l.Token == 0
		w.observers[client] = max(w.observers[client], l.Token)
		w.mu.Unlock()
	}
}

func (w *electorate) do(s step) {
	switch s.Do {
	case "campaign":
		w.actors.Go(func() { w.campaign(s) })
	case "lead":
		w.actors.Go(func() { w.lead(s) })
	case "pause":
		// As if the machine had stopped: what it sends arrives when it goes on.
		w.nets[s.Client].slow(s.Hold, 0)
		w.actors.Go(func() {
			<-time.After(s.Hold)
			w.nets[s.Client].all(nil)
		})
	default:
		w.world.do(s)
		return
	}
	synctest.Wait()
	time.Sleep(s.Sleep)
}

func runElection(program []step) (faults []string) {
	w := &electorate{world: world{store: memory.New()}, observers: make([]uint64, 3)}
	for range w.observers {
		net := newFaulty()
		net.Engine = w.store
		c, err := holdfast.New(net)
		if err != nil {
			return []string{err.Error()}
		}
		w.nets, w.clients = append(w.nets, net), append(w.clients, c)
	}
	watch, unwatch := context.WithCancel(context.Background())
	for i := range w.clients {
		w.actors.Go(func() { w.observe(watch, i) })
	}
	for _, s := range program {
		w.do(s)
	}
	for i := range w.nets {
		w.do(step{Do: "heal", Client: i})
	}
	for i := range w.clients { // whoever wants to lead can do so soon
		if !w.campaign(step{Client: i, Wait: 30 * time.Second}) {
			w.fail("client %d could not lead at the end", i)
		}
	}
	unwatch()
	w.actors.Wait()
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.fail("Close: %v", err)
		}
	}
	time.Sleep(10 * time.Second) // what is still under way arrives
	synctest.Wait()
	s, err := w.store.Snapshot(context.Background(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: "x"})
	if err != nil || len(s.Holders)+len(s.Waiters) > 0 {
		w.fail("left in the store: %+v, %v", s, err)
	}
	return w.faults
}

func TestElectionUnderRandomPrograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		program := rapid.SliceOfN(rapid.Custom(drawCandidacy), 1, 40).Draw(rt, "program")
		var faults []string
		synctest.Test(t, func(*testing.T) { faults = runElection(program) })
		if len(faults) > 0 {
			rt.Fatalf("%q", faults)
		}
	})
}
