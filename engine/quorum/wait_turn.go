package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// turn is the place of one attempt in the queues of the nodes. The place is the token that the
// attempt proposed first, so all nodes have the turns in the same order, and no turn is passed on
// any node. If the turn is at the front of a node's queue and its weight fits, the node calls it:
// the node sends a wake-up. When enough nodes for a ballot have called the turn, the client is
// woken and runs a ballot.
type turn struct {
	e *Engine
	attemptKey
	held engine.Held // its ID on the nodes, and its place

	mu          sync.Mutex
	on          []turnOnNode // by node
	callsWanted int          // number of calls that make a ballot succeed; 0: a ballot is under way
	notified    bool         // the client was woken since the latest ballot
	sent        time.Time    // time of the latest ballot
	ended       bool
}

// turnOnNode is the state of a turn on one node, as far as it is known.
type turnOnNode struct {
	queued     bool // the turn may be in the queue
	unknown    bool // a ballot without an answer may put the turn there later
	pending    int  // ballots in flight
	overlapped bool // several ballots were in flight at once, so their order on the node is unknown
	called     bool // the node has called since the latest ballot
}

// calledGrace is how long a turn waits for the calls of other nodes after the first call. A
// release is sent at once to all nodes that have the lease.
const calledGrace = 20 * time.Millisecond

// joinQueue returns the turn of an attempt that waits, and adds it to a ballot, which is sent to the
// voters now; nil if the request does not wait.
func (a *attemptState) joinQueue(e *Engine, r *engine.Request, voters []*node) *turn {
	if !r.Queue {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turn == nil && a.cause == 0 {
		a.turn = &turn{
			e: e, attemptKey: a.attemptKey, on: make([]turnOnNode, len(e.nodes)),
			held: engine.Held{ID: turnID(r.ID, r.Ballot), Token: r.Ballot},
		}
		e.attempts.turns.Store(a.turn.held.ID, a.turn)
	}
	if a.turn == nil {
		r.Queue = false
		return nil
	}
	r.Turn = a.turn.held
	a.turn.beginBallot(voters)
	return a.turn
}

// takeTurn removes the turn from an attempt that no longer waits, and returns the nodes from whose
// queues it must be removed now. With withdraw, these include nodes with a ballot in flight.
func (a *attemptState) takeTurn(withdraw bool) (t *turn, on []*node) {
	a.mu.Lock()
	t, a.turn = a.turn, nil
	a.mu.Unlock()
	if t == nil {
		return nil, nil
	}
	t.e.attempts.turns.Delete(t.held.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for i, n := range t.e.nodes {
		s := &t.on[i]
		if withdraw && s.pending > 0 {
			s.queued, s.unknown = false, true
			on = append(on, n)
		} else if s.remove() {
			on = append(on, n)
		}
	}
	return t, on
}

// endTurn removes the turn of an attempt from the queues in the background. On a node that has
// not answered a ballot yet, it is removed after the answer.
func (a *attemptState) endTurn() {
	t, on := a.takeTurn(false)
	for _, n := range on {
		t.removeFrom(n)
	}
}

// removeFrom removes the turn from the queue of a node in the background.
func (t *turn) removeFrom(n *node) { t.e.releaseInBackground(n, engine.ClientOf(t.id), t.removal(n)) }

// leaveQueue is like endTurn, but waits for the nodes, so that the attempt delays no others after
// it was withdrawn.
func (a *attemptState) leaveQueue(ctx context.Context) {
	t, on := a.takeTurn(true)
	if len(on) == 0 {
		return
	}
	p := callUntilAnswered(ctx, t.e, engine.ClientOf(t.id), on, min(t.e.majority, len(on)), func(ctx context.Context, n *node) error {
		return n.Release(ctx, t.removal(n))
	})
	p.startGrace()
	for range p.answers() {
	}
}

// remove records that the turn is removed from the queue of a node. It returns false if the turn
// is not there, or if a ballot could put it there again.
func (s *turnOnNode) remove() bool {
	out := s.queued && s.pending == 0
	s.queued = s.queued && !out
	return out
}

// removal returns the release that removes the turn from the queue of a node.
func (t *turn) removal(n *node) engine.Release {
	t.mu.Lock()
	defer t.mu.Unlock()
	return engine.Release{Resource: t.resource, Held: engine.Held{ID: t.held.ID}, Withdraw: t.on[n.index].unknown}
}

// beginBallot records that a ballot is sent to its voters.
func (t *turn) beginBallot(voters []*node) {
	t.mu.Lock()
	t.callsWanted, t.notified, t.sent = 0, false, time.Now()
	for i := range t.on {
		t.on[i].called = false
	}
	t.mu.Unlock()
	t.ballotSent(voters)
}

// ballotSent records that a ballot is sent to nodes, of which the spares come later.
func (t *turn) ballotSent(to []*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range to {
		s := &t.on[n.index]
		s.overlapped = s.pending > 0
		s.pending++
	}
}

// recordAnswer records the answer of a node to a ballot. A node that granted the ballot has
// removed the turn from its queue. But another ballot that was in flight or lost may have put the
// turn there again, since answers arrive in any order.
func (t *turn) recordAnswer(n *node, a engine.Answer, err error) {
	t.mu.Lock()
	s := &t.on[n.index]
	s.pending--
	switch {
	case err == errNotCalled:
	case unavailable(err):
		s.queued, s.unknown = true, true
	case err == nil && a.Status == engine.Busy:
		s.queued = true
	case err == nil && (a.Status == engine.Granted || a.Status == engine.Marked):
		s.queued = s.queued && (s.overlapped || s.unknown)
	}
	out := t.ended && s.remove()
	t.mu.Unlock()
	if out {
		t.removeFrom(n)
	}
}

// ballotRefused records that a ballot has failed because so many votes were missing. It reports
// whether that many nodes have called meanwhile.
func (t *turn) ballotRefused(by int) (called bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.callsWanted = max(1, by)
	return t.countCalls() >= t.callsWanted
}

// countCalls returns how many nodes have called since the latest ballot. The mutex is held.
func (t *turn) countCalls() int {
	calls := 0
	for _, s := range t.on {
		if s.called {
			calls++
		}
	}
	return calls
}

// called records that a node has called the turn. It wakes the client when enough nodes have
// called, or calledGrace after the first call.
func (t *turn) called(n *node, l *mergedListener) {
	t.mu.Lock()
	t.on[n.index].called = true
	calls, sent := t.countCalls(), t.sent
	enough := t.callsWanted > 0 && calls >= t.callsWanted
	t.mu.Unlock()
	switch {
	case enough:
		t.notify(l, sent)
	case calls == 1:
		time.AfterFunc(calledGrace, func() { t.notify(l, sent) })
	}
}

// notify wakes the client, unless it was woken already or has run another ballot since the one
// sent at the given time.
func (t *turn) notify(l *mergedListener, sent time.Time) {
	t.mu.Lock()
	due := !t.notified && !t.ended && t.sent == sent
	t.notified = t.notified || due
	t.mu.Unlock()
	if due {
		l.send(engine.Wakeup{Kind: engine.Resync, ID: t.id})
	}
}
