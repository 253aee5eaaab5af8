package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// suspicion is how long a node may be silent before it is left out.
	suspicion = 300 * time.Millisecond
	// most is how many calls of a silent node may be under way, whatever the others do.
	most = 256
	// shortestLag is how long any node may be silent while calls pile up: a few round
	// trips on loopback, and a little more than a busy scheduler takes.
	shortestLag = 250 * time.Microsecond
	// firstPause and longestPause bound the time between two tries of a node that is
	// left out.
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// node is an engine and what is known of its health.
type node struct {
	engine.Engine
	index int
	back  chan struct{} // of one: it may answer again, or debts are no more

	open    int    // calls that were begun, and are not over; with the mutex of crews
	waiting []task // with that mutex, too

	mu      sync.Mutex
	calls   int           // under way
	usual   time.Duration // how long a call takes; 0: unknown
	silent  time.Time     // since when calls have gone unanswered; zero: they have not
	failing bool          // the latest call failed
	probes  int           // calls under way that were begun while it was not fine
	pause   time.Duration
	tryAt   time.Time // when a node that is left out is asked again
	debts   []debt
	paying  bool
}

// fine tells whether the node answers, as far as is known.
func (n *node) fine(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.failing && n.silence(now) < suspicion
}

// hopeless tells whether it has not answered for longer than it usually takes.
func (n *node) hopeless(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.failing || n.silence(now) >= max(suspicion, 2*n.usual)
}

// silence is how long calls have gone unanswered. The mutex is held.
func (n *node) silence(now time.Time) time.Duration {
	if n.silent.IsZero() {
		return 0
	}
	return now.Sub(n.silent)
}

// lags tells whether it has not answered for a while that is longer than usual.
func (n *node) lags() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silence(time.Now()) >= min(max(2*n.usual, shortestLag), suspicion)
}

// admit tells whether the node is worth a call. One that is left out is, once in a
// while, if the last such call is over; but it is not well.
func (n *node) admit(now time.Time) (worth, well bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.failing && n.silence(now) < suspicion {
		return true, true
	}
	if n.probes > 0 || now.Before(n.tryAt) {
		return false, false
	}
	n.rest(now)
	return true, false
}

// full tells whether the node is silent and has so many calls that no further one
// makes sense.
func (n *node) full(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls >= most && n.silence(now) >= suspicion/10
}

// rest puts off the next try. The mutex is held.
func (n *node) rest(now time.Time) {
	n.pause = min(max(2*n.pause, firstPause), longestPause)
	n.tryAt = now.Add(n.pause)
}

// sending is a call under way.
type sending struct {
	at    time.Time
	probe bool // the node was not fine
}

func (n *node) begin() sending {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	s := sending{now, n.failing || n.silence(now) >= suspicion}
	if s.probe {
		n.probes++
	}
	n.calls++
	if n.silent.IsZero() {
		n.silent = now
	}
	return s
}

// end takes note of how a call ended.
func (n *node) end(s sending, err error) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls--
	if s.probe {
		n.probes--
	}
	switch {
	case err == nil || !unavailable(err):
		n.failing, n.pause, n.tryAt, n.silent = false, 0, time.Time{}, time.Time{}
		if n.calls > 0 {
			n.silent = now
		}
		n.usual = usually(n.usual, now.Sub(s.at))
		if s.probe && n.paying {
			n.wake()
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

// usually returns how long a call takes, after one more. It falls at once: the first
// calls open connections, and say nothing of the others.
func usually(before, took time.Duration) time.Duration {
	if before == 0 || took < before {
		return took
	}
	return before + (took-before)/8
}

// ask makes a call of a node. It outlives the caller's ctx. A node that answers is
// left to its own timeouts, since a ctx that can end makes every call dearer, and the
// caller does not wait for it; one that does not is given a while.
func ask[T any](ctx context.Context, w *crew, n *node, do func(context.Context, *node) (T, error)) (T, error) {
	s := n.begin()
	if s.probe {
		var cancel context.CancelFunc
		ctx, cancel = w.bounded()
		defer cancel()
	}
	v, err := do(ctx, n)
	n.end(s, err)
	return v, err
}

// pick returns the nodes to ask: those in good health, if so many suffice, else all
// that are not hopeless.
func (e *Engine) pick(need int) []*node {
	now := time.Now()
	healthy := 0
	worth := make([]*node, 0, len(e.nodes))
	for _, n := range e.nodes {
		ask, well := n.admit(now)
		if ask {
			worth = append(worth, n)
		}
		if well {
			healthy++
		}
	}
	if healthy >= need {
		return worth
	}
	return slices.DeleteFunc(slices.Clone(e.nodes), func(n *node) bool { return n.full(now) })
}
