package faulttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// checkClean checks what is left in the store when all clients are closed.
func (w *fixture) checkClean() {
	if w.t.Failed() {
		return
	}
	w.each(func(s *redistest.Server) { s.RequireTTLs(w.t) })
	w.nothingLeft()
}

// nothingLeft waits until no node has a holder or a waiter. A clean-up
// that needs the TTL is none: the test fails before the TTL can hide it.
func (w *fixture) nothingLeft() {
	w.t.Helper()
	limits := deadlines{}
	redistest.Await(w.t, waitTimeout, "the store has no lease and no wait left", func() bool {
		looked := time.Now()
		left, err := w.left()
		if err != nil {
			w.t.Log(err)
		}
		if forgotten := limits.passed(looked, left); forgotten != "" {
			w.t.Fatalf("left behind, until its TTL ends it: %s", forgotten)
		}
		return len(left) == 0 && err == nil
	})
}

// deadlines is until when what was found in the store may be there, counted from the
// first look at it.
type deadlines map[string]time.Time

// passed returns something that was there too late, or "". What was found was there
// at that moment or later.
func (d deadlines) passed(at time.Time, left map[string]time.Duration) string {
	for what, allowed := range left {
		if _, known := d[what]; !known {
			d[what] = at.Add(allowed)
		}
		if at.After(d[what]) {
			return what
		}
	}
	return ""
}

// left returns what is in the store, and for how long it may be: two thirds of the time
// after which it would expire.
func (w *fixture) left() (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	for i, e := range w.stores {
		for s, err := range e.List(context.Background(), holdfast.DefaultPrefix, "*") {
			if err != nil {
				return all, fmt.Errorf("node %d: %w", i+1, err)
			}
			for _, h := range s.Holders {
				allowed := h.TTL * 2 / 3
				if w.died(h.Client) {
					allowed = waitTimeout
				}
				all[fmt.Sprintf("node %d, %s: lease %s of process %d", i+1, s.Resource.Name, h.ID, h.Client.PID)] = allowed
			}
			for _, q := range s.Waiters {
				allowed := engine.WaiterLife * 2 / 3
				if w.died(q.Client) {
					allowed = waitTimeout
				}
				all[fmt.Sprintf("node %d, %s: wait %s of process %d", i+1, s.Resource.Name, q.ID, q.Client.PID)] = allowed
			}
		}
	}
	return all, nil
}

// died reports whether a client had no time to clean up: it was killed. The store may
// not have the process of a client any more. On a quorum a client that is closed
// leaves nodes that did not answer to the background, which ends with its process.
func (w *fixture) died(c engine.Client) bool {
	cleared, known := w.workers[c.PID]
	if c.PID == 0 {
		return len(w.workers) > 0
	}
	return known && (!cleared || w.queue != nil)
}

// The check accepts a late release, and finds a lease that waits for its TTL.
func TestJudgeOfLeftovers(t *testing.T) {
	at := time.Now()
	left := map[string]time.Duration{"slow": 2 * time.Second, "forgotten": time.Second}
	limits := deadlines{}
	for _, after := range []time.Duration{0, time.Second} {
		if got := limits.passed(at.Add(after), left); got != "" {
			t.Errorf("after %v: %s", after, got)
		}
	}
	left["forgotten"] = time.Hour // a later TTL changes nothing
	if got := limits.passed(at.Add(time.Second+1), left); got != "forgotten" {
		t.Errorf("got %q, want the forgotten one", got)
	}
	delete(left, "forgotten")
	if got := limits.passed(at.Add(time.Second+1), left); got != "" {
		t.Errorf("when it was gone: %s", got)
	}
}
