package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// spreadDelay is how long a lease is only on the nodes that had to grant it, counted from its ballot. One
// that is held for longer is requested on the spares too, so that nodes can fail without its loss.
const spreadDelay = 10 * time.Millisecond

// maxYoungAge is the age below which a lease may still be spread, by its token and the clock of this process.
// It exceeds spreadDelay by what the clocks of two processes may differ.
const maxYoungAge = time.Second

// isYoung reports whether the lease may still be spread.
func (t *quorumLease) isYoung() bool {
	return t.need < len(t.e.nodes) && time.Since(time.UnixMicro(int64(t.token))).Abs() < maxYoungAge
}

// isSpreadElsewhere reports whether another process has acquired the lease and may still spread it.
func (t *quorumLease) isSpreadElsewhere() bool { return t.sent.IsZero() && t.isYoung() }

// refuse makes a node refuse the lease, whose request may reach it later.
func (t *quorumLease) refuse(ctx context.Context, n *node, name engine.Held) error {
	return n.Release(ctx, engine.Release{Resource: t.res, Held: name, Withdraw: true})
}

// spreader requests young leases on the spares when they have been held for spreadDelay.
type spreader struct {
	mu       sync.Mutex
	young    []*quorumLease // in the order of their grants
	sweeping bool
}

// add registers a lease that was just granted, unless its ballot has called all nodes.
func (s *spreader) add(t *quorumLease) {
	t.mu.Lock()
	hasSpares := slices.ContainsFunc(t.onNode, func(s nodeLease) bool { return s.state == spare })
	t.mu.Unlock()
	if !hasSpares {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.young = append(s.young, t)
	s.arm()
}

// arm sets the timer for the oldest lease. The mutex is held.
func (s *spreader) arm() {
	if s.sweeping || len(s.young) == 0 {
		return
	}
	s.sweeping = true
	time.AfterFunc(max(0, spreadDelay-time.Since(s.young[0].sent)), s.sweep)
}

func (s *spreader) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.young) && time.Since(s.young[n].sent) >= spreadDelay {
		n++
	}
	for _, t := range s.young[:n] {
		if time.Since(t.sent) < t.request.TTL { // it has expired if the process was paused
			t.spread()
		}
	}
	if s.young = s.young[n:]; len(s.young) == 0 {
		s.young = nil // frees the array
	}
	s.sweeping = false
	s.arm()
}

// leave spreads the leases of a client now, since calls after Leave are not waited for.
func (s *spreader) leave(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.young {
		if t.clientID() == client {
			t.spread()
		}
	}
}

// spread requests the lease, in the background, on the nodes that its ballot has not called. A
// renewal restores the lease where this fails.
func (t *quorumLease) spread() {
	var to []*node
	for _, n := range t.e.nodes {
		if t.takeSpare(n) {
			to = append(to, n)
		}
	}
	if len(to) > 0 {
		callNodes(context.Background(), t.e, t.clientID(), to, 0, t.requestAgain, t.recordAnswer)
	}
}

// spreadTo does the same on one node, and waits for the answer.
func (t *quorumLease) spreadTo(ctx context.Context, n *node) {
	if t.takeSpare(n) {
		ans, err := t.requestAgain(ctx, n)
		t.recordAnswer(n, ans, err)
	}
}

// takeSpare records that a node is called now. It returns false if the node was called before, or if the
// lease has ended.
func (t *quorumLease) takeSpare(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.onNode[n.index]
	if t.ended || s.state != spare {
		return false
	}
	s.state = s.state.after(requestSent)
	return true
}

// requestAgain sends the ballot's request to a node, under the same ID and token: a node that has granted a
// later lease refuses it, so a grant shows that there was none.
func (t *quorumLease) requestAgain(ctx context.Context, n *node) (engine.Answer, error) {
	t.mu.Lock()
	r, s, ended := t.request, t.onNode[n.index], t.ended
	marks := s.awaited && t.removal.Mark > 0
	t.mu.Unlock()
	if ended && !marks { // a release with a mark needs the lease there first
		return engine.Answer{}, errNotCalled
	}
	r.ID = s.name.ID
	ans, err := n.Acquire(ctx, r)
	if err == nil && ans.Status == engine.Outbid {
		t.e.tokens.observe(t.res, ans.Last) // a restore has to be above it
	}
	return ans, err
}
