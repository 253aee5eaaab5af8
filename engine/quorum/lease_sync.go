package quorum

import (
	"cmp"
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/engine"
)

// errMarkUnconfirmed is the result on a node that has confirmed the release but may not have set
// the mark.
var errMarkUnconfirmed = errors.New("it has not confirmed the mark")

// scheduleSyncs calls scheduleSync for all nodes. The mutex is held.
func (t *quorumLease) scheduleSyncs() {
	for _, n := range t.e.nodes {
		t.scheduleSync(n)
	}
}

// scheduleSync calls a node in the background if it is not in the wanted state; if the lease has
// ended, it must be absent there. An unanswered request is awaited first. The mutex is held.
func (t *quorumLease) scheduleSync(n *node) {
	s := &t.onNode[n.index]
	if t.ended && s.state != requested {
		s.state = s.state.after(removalDue)
	}
	if s.syncing || !t.needsSync(n) {
		return
	}
	s.syncing = t.e.dispatcher.callInBackground(t.clientID(), n, t.syncNode, func(n *node, err error) {
		if err == errNotCalled {
			t.mu.Lock()
			defer t.mu.Unlock()
			s.syncing = false
		}
	})
}

// needsSync reports whether a node is not in the wanted state. The mutex is held.
func (t *quorumLease) needsSync(n *node) bool {
	s := &t.onNode[n.index]
	switch s.state {
	case releasing, withdrawing:
		return true
	case held:
		return s.provisional && t.fullTTL > 0 || t.request.Weight > 0 && s.weight != t.request.Weight
	}
	return false
}

// syncNode makes the calls that a node needs, one after the other.
func (t *quorumLease) syncNode(ctx context.Context, n *node) error {
	s := &t.onNode[n.index]
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.needsSync(n) {
		t.mu.Unlock()
		err := t.syncStep(ctx, n)
		t.mu.Lock()
		t.reportLate(n, err)
		if unavailable(err) {
			return err
		}
		if err != nil {
			break
		}
	}
	s.syncing = false
	return nil
}

// syncStep makes one call: the release if the lease has ended, otherwise the extension to the
// full TTL or the new weight.
func (t *quorumLease) syncStep(ctx context.Context, n *node) error {
	t.mu.Lock()
	s, ended, r := t.onNode[n.index], t.ended, t.removal
	weight, ttl := t.request.Weight, t.fullTTL
	t.mu.Unlock()
	switch {
	case ended:
		r.Resource, r.Held = t.res, s.name
		return t.releaseOnNode(ctx, n, r, s)
	case s.provisional && ttl > 0:
		err := n.Renew(ctx, []engine.Renewal{{Resource: t.res, Held: s.name, TTL: ttl}})[0]
		if err == nil {
			t.seen(n, s.name)
		}
		return err
	}
	return t.resizeOn(ctx, n, weight)
}

// releaseOnNode releases the lease on one node, where it had the given state, and returns the
// node's result for the tally.
func (t *quorumLease) releaseOnNode(ctx context.Context, n *node, r engine.Release, was nodeLease) error {
	r.Withdraw = r.Withdraw || was.state == withdrawing // the request may still be under way
	err := releaseMarking(ctx, n, r, was.state)
	if notHeld(err) && t.sent.IsZero() && r.Mark == 0 {
		err = t.releaseRestored(ctx, n, r, err)
	}
	if was.mayBeMarked && (err == nil || notHeld(err)) { // the mark outlives the lease
		if failed := t.endMark(ctx, n); failed != nil {
			return failed
		}
	}
	switch {
	case notHeld(err) && t.isSpreadElsewhere():
		return cmp.Or(t.refuse(ctx, n, was.name), err)
	case err != nil:
		return err
	case r.Mark == 0 || was.state.marks():
		t.mu.Lock()
		defer t.mu.Unlock()
		s := &t.onNode[n.index]
		s.state, s.mayBeMarked = s.state.after(removalDone), false
		return nil
	}
	return errMarkUnconfirmed
}

// releaseRestored releases a lease that another process has acquired, on a node on which that process may have
// restored it, under another ID. If it is not there, releaseRestored returns the earlier error.
func (t *quorumLease) releaseRestored(ctx context.Context, n *node, r engine.Release, earlier error) error {
	all, err := holdersOn(ctx, n, t.res, false)
	if err != nil {
		return err
	}
	for _, h := range all {
		if leaseOf(h) == (engine.Held{ID: t.holderID, Token: t.token}) {
			r.Held = engine.Held{ID: h.ID, Token: h.Token}
			return n.Release(ctx, r)
		}
	}
	return earlier
}

// releaseMarking releases the lease on one node. A withdrawal is always confirmed, so it does not
// show whether the node has set the mark. If that matters, and the request may still arrive, the
// withdrawal is a second call.
func releaseMarking(ctx context.Context, n *node, r engine.Release, state nodeLeaseState) error {
	if r.Mark == 0 || state != withdrawing {
		return n.Release(ctx, r)
	}
	plain := r
	plain.Withdraw = false
	marked := n.Release(ctx, plain)
	r.Mark = 0
	return errors.Join(marked, n.Release(ctx, r))
}

// reportLate sends the result of a node to the release that waits for it. The mutex is held.
func (t *quorumLease) reportLate(n *node, err error) {
	if s := &t.onNode[n.index]; s.awaited {
		s.awaited = false
		t.lateReplies <- nodeReply[none]{node: n, err: err}
	}
}

// endSync records the result of a call. If it failed, the node's outbox repeats it.
func (t *quorumLease) endSync(n *node, _ none, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onNode[n.index].syncing = false
	if unavailable(err) {
		t.scheduleSync(n)
	}
}
