package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// downAfter is how long a node may be silent before it counts as down.
	downAfter = 300 * time.Millisecond
	// minSlowAfter is how long any node may be silent before it counts as slow: a few round
	// trips on loopback, and a little more than a busy scheduler takes.
	minSlowAfter = 250 * time.Microsecond
	// minBackoff and maxBackoff bound the time between two probes of a node that is down.
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// node is an engine, its health, and the calls that wait for it. The mutex of the dispatcher
// guards all fields but the engine and its index.
type node struct {
	engine.Engine
	index int

	outbox   []*nodeCall // calls that wait until the node answers
	timerSet bool        // a timer drains the outbox

	inFlight    int
	latency     time.Duration // moving average of a call; 0: unknown
	sent        time.Time     // when the latest call was sent
	answered    time.Time     // when the latest call that it has answered was sent
	silentSince time.Time     // start of its silence; zero: it has answered the latest call
	failing     bool          // the latest call failed
	probes      int           // calls in flight that were sent while it was down
	backoff     time.Duration
	retryAt     time.Time // when a node that is down is called again
}

// health describes how quickly a node has answered lately.
type health uint8

const (
	healthy health = iota
	slow           // silent for longer than usual
	down           // failing, or silent for long: not called if the others suffice
)

// health returns the health of the node. The mutex is held.
func (n *node) health(now time.Time) health {
	silence := time.Duration(0)
	if !n.silentSince.IsZero() {
		silence = now.Sub(n.silentSince)
	}
	switch {
	case n.failing, silence >= max(downAfter, min(2*n.latency, nodeTimeout)):
		return down
	case silence >= min(max(2*n.latency, minSlowAfter), downAfter):
		return slow
	}
	return healthy
}

// admitProbe reports whether a node that is down may be called now: one call at a time,
// after a backoff. The mutex is held.
func (n *node) admitProbe(now time.Time) bool {
	if n.probes > 0 || now.Before(n.retryAt) {
		return false
	}
	n.backOff(now)
	return true
}

// backOff doubles the time to the next probe. The mutex is held.
func (n *node) backOff(now time.Time) {
	n.backoff = min(max(2*n.backoff, minBackoff), maxBackoff)
	n.retryAt = now.Add(n.backoff)
}

// startCall records that a call is sent. The mutex is held.
func (n *node) startCall(c *nodeCall, now time.Time) {
	c.sent, c.probe = now, n.health(now) == down
	if c.probe {
		n.probes++
	}
	n.inFlight++
	if n.sent = now; n.silentSince.IsZero() {
		n.silentSince = now
	}
}

// endCall records how a call ended. The mutex is held.
func (n *node) endCall(c *nodeCall, err error) {
	now := time.Now()
	n.inFlight--
	if c.probe {
		n.probes--
	}
	switch {
	case err == nil || !unavailable(err):
		n.failing, n.backoff, n.retryAt, n.silentSince = false, 0, time.Time{}, time.Time{}
		if c.sent.After(n.answered) {
			n.answered = c.sent
		}
		if n.inFlight > 0 && n.sent.After(n.answered) { // earlier calls without an answer are lost
			n.silentSince = now
		}
		n.latency = averageLatency(n.latency, now.Sub(c.sent))
	case c.sent.Before(n.answered):
		// The call was lost in an outage that is over.
	case err == errNotCalled, errors.Is(err, context.Canceled):
		// The call shows nothing about the node: the next one may be made now.
		if c.probe {
			n.backoff, n.retryAt = n.backoff/2, time.Time{}
		}
		if n.inFlight == 0 && now.Sub(n.silentSince) < downAfter {
			n.silentSince = time.Time{}
		}
	default:
		if !n.failing {
			n.backOff(now)
		}
		n.failing = true
	}
}

// averageLatency returns the moving average after one more call. A call below the average replaces
// it, since the first calls open connections and take longer than the others.
func averageLatency(before, took time.Duration) time.Duration {
	if before == 0 || took < before {
		return max(took, 1)
	}
	return before + (took-before)/8
}

// selectNodes returns the nodes that an operation calls, and those that it does not call: the
// nodes that are down, if enough others are healthy and have answered before. The mutex of the
// dispatcher is held.
func selectNodes(from []*node, need int, now time.Time) (use, skip []*node) {
	proven := 0
	use = make([]*node, 0, len(from))
	for _, n := range from {
		h := n.health(now)
		if h == healthy && n.latency > 0 {
			proven++
		}
		if h != down || n.admitProbe(now) {
			use = append(use, n)
		} else {
			skip = append(skip, n)
		}
	}
	if proven >= need {
		return use, skip
	}
	return from, nil
}

// allDown reports whether all nodes that count are down.
func (d *dispatcher) allDown(counts func(*node) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	return !slices.ContainsFunc(d.nodes, func(n *node) bool { return counts(n) && n.health(now) < down })
}
