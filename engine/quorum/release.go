package quorum

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// notHeld reports whether an error means that there is no lease.
func notHeld(err error) bool {
	_, ok := errors.AsType[*engine.NotHeldError](err)
	return ok
}

// Release implements engine.Engine. It returns when a majority has released the lease; the
// others are released in the background. With a mark, a majority must have set the mark as well.
func (e *Engine) Release(ctx context.Context, r engine.Release) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	k := attemptKey{r.Resource, r.ID}
	a := e.attempts.find(k)
	if r.Withdraw {
		a = e.attempts.findOrCreate(k) // the refusal must be recorded
		a.end(engine.NotHeldError{Cause: engine.CauseReleased})
	}
	if r.Mark > 0 { // otherwise the nodes call the next turn when the resource is free
		defer e.localQueues.clear(r.Resource)
	}
	if a == nil {
		if r.Token == 0 && e.attempts.tombstone(k) == engine.CauseReleased {
			return nil
		}
		return e.releaseOnNodes(ctx, r)
	}
	a.mu.Lock()
	lease, ballots := a.lease, slices.Clone(a.leases)
	queued := a.queued || r.Withdraw
	a.mu.Unlock()
	e.localQueues.remove(a)
	a.leaveQueue(ctx)
	var err error
	switch {
	case lease != nil:
		if err = e.releaseLease(ctx, lease, r); err == nil {
			a.withdraw(lease)
		}
	case r.Token != 0:
		err = e.releaseOnNodes(ctx, r)
	default:
		err = e.releaseBallots(ctx, a, ballots, r)
	}
	e.forgetReleased(a, err)
	if err == nil && lease == nil && r.Token == 0 && !queued {
		return &engine.NotHeldError{Cause: engine.CauseDeleted}
	}
	return err
}

// releaseBallots releases what is left of an attempt that has no lease. So its work was not done,
// and nothing is marked.
func (e *Engine) releaseBallots(ctx context.Context, a *attemptState, ballots []*quorumLease, r engine.Release) error {
	r.Mark = 0
	for _, t := range ballots {
		if err := e.releaseLease(ctx, t, r); err != nil && !notHeld(err) {
			a.withdrawUnanswered() // the other ballots
			return err
		}
	}
	return nil
}

// forgetReleased removes an attempt that was released; a tombstone remains. If it was withdrawn,
// the answers do not matter: each node is called until it has answered.
func (e *Engine) forgetReleased(a *attemptState, err error) {
	lease, cause := a.status()
	if lease == nil && (cause != 0 || err == nil) {
		e.attempts.remove(a, cause)
	}
}

// releaseOnNodes releases a lease that this process has not acquired, or has released before. For
// a mark it has to be known which nodes have the lease: another one may confirm the release as a
// repeated one, and not set the mark.
func (e *Engine) releaseOnNodes(ctx context.Context, r engine.Release) error {
	var missing error
	if r.Mark == 0 {
		if missing = e.releaseLease(ctx, e.assumedLease(r.Resource, r.Held), r); !notHeld(missing) {
			return missing
		}
	}
	t, err := e.lookUpLease(ctx, r.Resource, r.Held)
	if err != nil {
		return err
	}
	if t != nil {
		if err := e.releaseLease(ctx, t, r); !notHeld(err) {
			return err
		}
	}
	if r.Mark == 0 {
		return missing
	}
	return e.releaseLease(ctx, e.assumedLease(r.Resource, r.Held), r)
}

// releaseLease releases a lease on the nodes. A node that has not answered the request yet
// counts after its answer, in case others do not answer now.
func (e *Engine) releaseLease(ctx context.Context, t *quorumLease, r engine.Release) error {
	if r.Mark > 0 {
		t.spread() // a mark needs a majority even if a node fails now
	}
	p := newFanOut[none](ctx, e, e.nodes)
	called := t.startRelease(r, p.replies)
	others := len(e.nodes) - len(called)
	p.send(t.clientID(), called, max(0, t.need-others), withoutValue(t.syncStep), t.endSync)
	c := tally{nodes: len(e.nodes), need: t.need}
	for reply := range p.answers() {
		if c.add(reply.node, reply.err); c.final() {
			break
		}
		waits := slices.ContainsFunc(p.unanswered, func(n *node) bool { return slices.Contains(called, n) })
		if c.lost() || c.removed() || !waits {
			p.startGrace() // enough nodes are free for the next holder, or the late ones are the last
		}
	}
	if r.Mark == 0 && c.confirmations > 0 && c.confirmations+len(c.gone) >= e.majority && !c.lost() {
		return nil // a majority does not have the lease, and it may have been held until now
	}
	return c.outcome(ctx, "released the lease")
}

// startRelease ends the lease and records the state of its release on each node. It returns the
// nodes to call; replies receives the results of the others. One that has not yet answered the
// request of a granted lease is released after its answer: a withdrawal instead would leave a
// tombstone there for each lease that is released this quickly.
func (t *quorumLease) startRelease(r engine.Release, replies chan<- nodeReply[none]) (called []*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.removal, t.lateReplies = true, r, replies
	mayComeLater := r.Mark == 0 && t.isSpreadElsewhere()
	for i, n := range t.e.nodes {
		s := &t.onNode[i]
		// A release receives one result per node. If an earlier release has waited for the call in
		// the background, that call may still be in flight, and its result is not sent.
		s.awaited = s.state == requested && t.granted
		switch {
		case s.awaited:
		case s.state == absent, s.state == spare, s.state == requested && mayComeLater:
			replies <- nodeReply[none]{node: n, err: &engine.NotHeldError{Cause: engine.CauseDeleted}}
			if mayComeLater {
				s.state = withdrawing
				t.scheduleSync(n)
			}
		case s.state == released:
			replies <- nodeReply[none]{node: n}
		default:
			s.state = s.state.after(removalDue) // recordAnswer ignores a late answer to the request
			s.syncing = true                    // nothing is put into its outbox
			called = append(called, n)
		}
	}
	return called
}
