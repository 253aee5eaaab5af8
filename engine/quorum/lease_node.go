package quorum

import (
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// nodeLease is the state of a lease on one node. The mutex of the lease guards it. Each
// function that changes it calls scheduleSync, which puts one call into the node's outbox if
// the node is not in the wanted state. The kind of call is chosen when it is made, so it
// follows the latest state, and calls about one lease stay in order.
type nodeLease struct {
	state       nodeLeaseState
	name        engine.Held // the ID and token of the lease there
	weight      int         // the weight that the node has confirmed
	provisional bool        // granted for the claim window and not extended since
	mayBeMarked bool        // a failed ballot may have marked the resource there
	syncing     bool        // a call of syncNode is in the outbox or in flight
	awaited     bool        // a release waits for its outcome
}

// nodeLeaseState is the state of a lease on a node, as far as it is known.
type nodeLeaseState uint8

const (
	absent      nodeLeaseState = iota // nothing: refused, or left out of the call
	spare                             // nothing yet: called if the voters do not suffice, or by the spread
	requested                         // the request has not been answered
	held                              // granted
	unknown                           // the request failed: the node may have the lease
	releasing                         // held before, and to be released
	withdrawing                       // the node may have the lease: release it, and refuse its request from then on
	released                          // the node has confirmed the release or withdrawal
)

// nodeLeaseEvent changes a nodeLeaseState.
type nodeLeaseEvent uint8

const (
	requestSent nodeLeaseEvent = iota
	requestGranted
	requestRefused
	requestFailed // without an answer
	leaseSeen     // the node has extended the lease
	removalDue    // the lease has to be removed
	removalDone
)

// after returns the state that follows an event. An event that does not apply to a state leaves
// it unchanged.
func (s nodeLeaseState) after(e nodeLeaseEvent) nodeLeaseState {
	switch {
	case e == requestSent:
		return requested
	case s == requested && e == requestGranted, (s == unknown || s == absent) && e == leaseSeen:
		return held
	case s == requested && e == requestRefused:
		return absent
	case s == requested && e == requestFailed:
		return unknown
	case s == held && e == removalDue:
		return releasing
	case (s == requested || s == unknown) && e == removalDue:
		return withdrawing
	case (s == releasing || s == withdrawing) && e == removalDone:
		return released
	}
	return s
}

// marks reports whether a node that confirms a release with a mark has set the mark. A node that
// may not have had the lease may confirm the release as a repeated one, without a mark.
func (s nodeLeaseState) marks() bool { return s == releasing || s == released }

// recordAnswer records the answer of a node to a request for the lease, which may come after the
// ballot was decided.
func (t *quorumLease) recordAnswer(n *node, a engine.Answer, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.onNode[n.index]
	if s.state != requested {
		return // it was withdrawn meanwhile
	}
	switch {
	case err == nil && a.Status == engine.Granted:
		s.state, s.provisional = s.state.after(requestGranted), true
	case unavailable(err) && err != errNotCalled:
		s.state = s.state.after(requestFailed)
	default:
		s.state = s.state.after(requestRefused)
		t.reportLate(n, &engine.NotHeldError{Cause: engine.CauseDeleted})
	}
	t.scheduleSync(n)
}

// on returns the present state of the lease on a node.
func (t *quorumLease) on(n *node) nodeLease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.onNode[n.index]
}

// isSettled reports whether no node has the lease or can still grant it.
func (t *quorumLease) isSettled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.ContainsFunc(t.onNode, func(s nodeLease) bool {
		return s.state == requested || s.state == held || s.state == unknown
	})
}

// withdraw ends the lease on all nodes in the background, also on those at which its request
// arrives later.
func (t *quorumLease) withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.scheduleSyncs()
}

// withdrawUnanswered makes the nodes refuse requests of an ended ballot that may still arrive.
// It does not wait for their answers, which may be lost.
func (t *quorumLease) withdrawUnanswered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, n := range t.e.nodes {
		if s := &t.onNode[i]; t.ended && s.state == requested {
			s.state = s.state.after(removalDue)
			t.scheduleSync(n)
		}
	}
}
