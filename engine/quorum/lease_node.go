package quorum

import (
	"github.com/holdfast-go/holdfast/engine"
)

// nodeLease is what a lease has on one node. The mutex of the lease guards it. Whatever
// changes it calls scheduleSync, which puts one call into the node's outbox if the node has
// something else than it should have. What that call does is decided when it is made, so it
// follows the latest state, and calls about one lease stay in order.
type nodeLease struct {
	state       nodeLeaseState
	name        engine.Held // what the lease is called there
	weight      int         // what it is known to count there
	provisional bool        // it was granted, and not extended since
	mayBeMarked bool        // by a grant that failed
	resizing    bool        // a Resize is in flight
	syncing     bool        // a call about it is in the outbox or in flight
	awaited     bool        // a release waits for what becomes of it
}

// nodeLeaseState is what a lease may have on a node.
type nodeLeaseState uint8

const (
	absent      nodeLeaseState = iota // nothing: not requested, or refused
	requested                         // the request has not been answered
	held                              //
	unknown                           // the request failed: the lease may be there
	releasing                         // it was held, and has to be released
	withdrawing                       // it may have been there; the node has to refuse its request
	released                          // released or withdrawn, and confirmed
)

// nodeLeaseEvent changes a nodeLeaseState.
type nodeLeaseEvent uint8

const (
	requestSent nodeLeaseEvent = iota
	requestGranted
	requestRefused
	requestFailed // without an answer
	leaseSeen     // the node has extended the lease
	removalDue    // nothing is to be left there
	removalDone
)

// after returns the state that follows an event; most events change only some states.
func (s nodeLeaseState) after(e nodeLeaseEvent) nodeLeaseState {
	switch {
	case e == requestSent:
		return requested
	case s == requested && e == requestGranted, s == unknown && e == leaseSeen:
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

// marks reports whether a node that confirms a release with a mark has made the mark. One that
// is not known to have had the lease may take it for released before, and marks nothing.
func (s nodeLeaseState) marks() bool { return s == releasing || s == released }

// recordAnswer records what a node answered to a request for the lease. The mutex is held.
func (t *quorumLease) recordAnswer(n *node, a engine.Answer, err error) {
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

// heldOn returns what the lease is called on a node.
func (t *quorumLease) heldOn(n *node) engine.Held {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.onNode[n.index].name
}

// isSettled reports whether no node has, or can still get, anything of the lease.
func (t *quorumLease) isSettled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.onNode {
		if s.state == requested || s.state == held || s.state == unknown {
			return false
		}
	}
	return true
}

// withdraw ends in the background what the lease has, and what it still gets.
func (t *quorumLease) withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.scheduleSyncs()
}

// withdrawUnanswered makes the nodes refuse what a ballot that has ended may still have under
// way, without waiting for their answers, which may be lost.
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
