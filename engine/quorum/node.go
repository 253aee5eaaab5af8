package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// suspicion is how long a node may be silent before it is left out.
	suspicion = 300 * time.Millisecond
	// shortestLag is how long any node may be silent while calls pile up: a few round
	// trips on loopback, and a little more than a busy scheduler takes.
	shortestLag = 250 * time.Microsecond
	// firstPause and longestPause bound the time between two tries of a node that is
	// away.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// node is an engine, the calls that it has not got yet, and what is known of its health.
// The mutex of the calls guards all but the engine.
type node struct {
	engine.Engine
	index int

	// outbox has the calls that wait until the node answers: questions, which are soon of
	// no use, and what it has to be told, which is repeated.
	outbox []*call
	armed  bool // a timer looks after it

	open    int           // calls under way
	usual   time.Duration // how long a call takes; 0: unknown
	silent  time.Time     // since when calls have gone unanswered; zero: they have not
	failing bool          // the latest call failed
	probes  int           // calls under way that were begun while it was away
	pause   time.Duration
	tryAt   time.Time // when a node that is away is asked again
}

// health is how a node answers, as far as is known.
type health uint8

const (
	well health = iota
	slow        // silent for longer than usual
	away        // failing, or silent for long: it is left out where the others suffice
)

// health returns how the node answers. The mutex is held.
func (n *node) health(now time.Time) health {
	silence := time.Duration(0)
	if !n.silent.IsZero() {
		silence = now.Sub(n.silent)
	}
	switch {
	case n.failing, silence >= max(suspicion, min(2*n.usual, patience)):
		return away
	case silence >= min(max(2*n.usual, shortestLag), suspicion):
		return slow
	}
	return well
}

// admit tells whether a node that is away may be called: once in a while, if the last
// such call is over. The mutex is held.
func (n *node) admit(now time.Time) bool {
	if n.probes > 0 || now.Before(n.tryAt) {
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

// begin takes note of a call. The mutex is held.
func (n *node) begin(c *call, now time.Time) {
	c.sent, c.probe = now, n.health(now) == away
	if c.probe {
		n.probes++
	}
	n.open++
	if n.silent.IsZero() {
		n.silent = now
	}
}

// end takes note of how a call ended. The mutex is held.
func (n *node) end(c *call, err error) {
	now := time.Now()
	n.open--
	if c.probe {
		n.probes--
	}
	switch {
	case err == nil || !unavailable(err):
		n.failing, n.pause, n.tryAt, n.silent = false, 0, time.Time{}, time.Time{}
		if n.open > 0 {
			n.silent = now
		}
		n.usual = usually(n.usual, now.Sub(c.sent))
	case err == errLeftOut, errors.Is(err, context.Canceled):
		// It was not made, or not given its time: the next one may be made now.
		if c.probe {
			n.pause, n.tryAt = n.pause/2, time.Time{}
		}
		if n.open == 0 && now.Sub(n.silent) < suspicion {
			n.silent = time.Time{}
		}
	default:
		if !n.failing {
			n.rest(now)
		}
		n.failing = true
	}
}

// usually returns how long a call takes, after one more. It falls at once: the first
// calls open connections, and say nothing of the others.
func usually(before, took time.Duration) time.Duration {
	if before == 0 || took < before {
		return max(took, 1)
	}
	return before + (took-before)/8
}

// pick returns the nodes to ask: all, but those that are away if enough others are well,
// and have answered before.
func (e *Engine) pick(need int) []*node {
	e.calls.mu.Lock()
	defer e.calls.mu.Unlock()
	now := time.Now()
	healthy := 0
	worth := make([]*node, 0, len(e.nodes))
	for _, n := range e.nodes {
		h := n.health(now)
		if h == well && n.usual > 0 {
			healthy++
		}
		if h != away || n.admit(now) {
			worth = append(worth, n)
		}
	}
	if healthy >= need {
		return worth
	}
	return slices.Clone(e.nodes)
}

// away tells whether all of some nodes are.
func (e *Engine) away(nodes []*node) bool {
	e.calls.mu.Lock()
	defer e.calls.mu.Unlock()
	now := time.Now()
	return !slices.ContainsFunc(nodes, func(n *node) bool { return n.health(now) < away })
}
