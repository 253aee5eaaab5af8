package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// suspicion is how long a node may be silent before it is left out.
	suspicion = 300 * time.Millisecond
	// crowded is how many calls of a node may be under way while it is silent.
	crowded = 256
	// firstPause and longestPause bound the time between two tries of a node that is
	// left out.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// node is an engine and what is known of its health.
type node struct {
	engine.Engine
	index int

	mu        sync.Mutex
	calls     int       // under way
	silent    time.Time // since when calls have gone unanswered; zero: they have not
	failing   bool      // the latest call failed
	pause     time.Duration
	tryAt     time.Time // when a node that is left out is asked again
	insisting int       // releases that are insisted on
}

// admit tells whether the node is worth a call. One that is left out is, once in a
// while.
func (n *node) admit(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	silence := time.Duration(0)
	if !n.silent.IsZero() {
		silence = now.Sub(n.silent)
	}
	if !n.failing && silence < suspicion && (n.calls < crowded || silence < suspicion/10) {
		return true
	}
	if now.Before(n.tryAt) {
		return false
	}
	n.rest(now)
	return true
}

// rest puts off the next try. The mutex is held.
func (n *node) rest(now time.Time) {
	n.pause = min(max(2*n.pause, firstPause), longestPause)
	n.tryAt = now.Add(n.pause)
}

func (n *node) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	if n.silent.IsZero() {
		n.silent = time.Now()
	}
}

// end takes note of how a call ended.
func (n *node) end(err error) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls--
	switch {
	case err == nil || !unavailable(err):
		n.failing, n.pause, n.tryAt, n.silent = false, 0, time.Time{}, time.Time{}
		if n.calls > 0 {
			n.silent = now
		}
	case errors.Is(err, context.Canceled):
		// It was not given its time.
		if n.calls == 0 && now.Sub(n.silent) < suspicion {
			n.silent = time.Time{}
		}
	default:
		if !n.failing {
			n.rest(now)
		}
		n.failing = true
	}
}

// pick returns the nodes to ask: those in good health, if so many suffice, else all.
func (e *Engine) pick(need int) []*node {
	now := time.Now()
	well := make([]*node, 0, len(e.nodes))
	for _, n := range e.nodes {
		if n.admit(now) {
			well = append(well, n)
		}
	}
	if len(well) < need {
		return e.nodes
	}
	return well
}
