package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/engine"
)

// share is what a round has on one node, and what the node is owed: the mutex of the
// round guards it. Whatever changes calls owe, which puts the node on its list if it has
// something to be told. There is one entry a share: what is to be said is looked up when
// it is said, so it is the latest, and in order.
type share struct {
	at     standing
	name   engine.Held // what the lease is called there
	weight int         // what it is known to count there
	brief  bool        // it was granted, and not extended since
	unmark bool        // it may have marked for a grant that failed
	missed bool        // it did not answer the latest Resize
	owed   bool        // it is on the node's list, or being told
	late   bool        // a release waits for what becomes of it
}

// standing is what a round may have on a node.
type standing uint8

const (
	absent standing = iota // nothing: not asked, or refused
	asked                  // no answer has come yet
	held
	unsure    // the call failed: it may be there
	given     // it was held; it has to be given back
	withdrawn // it may have been there; the node has to refuse it
	returned  // given or withdrawn, and confirmed
)

// event changes a standing.
type event uint8

const (
	asks     event = iota // a request is sent
	grants                // and its answer
	refuses               //
	fails                 //
	shows                 // the node has extended the lease
	ends                  // nothing shall be left there
	confirms              // nothing is
)

// after returns the standing that follows an event; most change only some.
func (s standing) after(e event) standing {
	switch {
	case e == asks:
		return asked
	case s == asked && e == grants, s == unsure && e == shows:
		return held
	case s == asked && e == refuses:
		return absent
	case s == asked && e == fails:
		return unsure
	case s == held && e == ends:
		return given
	case (s == asked || s == unsure) && e == ends:
		return withdrawn
	case (s == given || s == withdrawn) && e == confirms:
		return returned
	}
	return s
}

// marks tells whether a node that says yes to a release with a mark has made it. One
// that is not known to have had the lease may take it for given back before, and
// marks nothing.
func (s standing) marks() bool { return s == given || s == returned }

// answer takes in what a node said to a request for the lease. The mutex is held.
func (t *round) answer(n *node, a engine.Answer, err error) {
	s := &t.shares[n.index]
	if s.at != asked {
		return // it was withdrawn meanwhile
	}
	switch {
	case err == nil && a.Status == engine.Granted:
		s.at, s.brief = s.at.after(grants), true
	case unavailable(err) && err != errLeftOut:
		s.at = s.at.after(fails)
	default:
		s.at = s.at.after(refuses)
		t.report(n, &engine.NotHeldError{Cause: engine.CauseDeleted})
	}
	t.owe(n)
}

// due tells whether a node has to be told something. The mutex is held.
func (t *round) due(n *node) bool {
	s := &t.shares[n.index]
	switch s.at {
	case given, withdrawn:
		return true
	case held:
		return s.brief && t.long > 0 || t.req.Weight > 0 && s.weight != t.req.Weight
	}
	return false
}

// owe puts a node on its list, if it has to be told something: that nothing shall be
// left there, when the round is over. What is asked for waits for its answer. The mutex
// is held.
func (t *round) owe(n *node) {
	s := &t.shares[n.index]
	if t.over && s.at != asked {
		s.at = s.at.after(ends)
	}
	if s.owed || !t.due(n) {
		return
	}
	s.owed = t.e.calls.owe(t.client(), n, t.settle, func(*node) {
		t.mu.Lock()
		defer t.mu.Unlock()
		s.owed = false
	})
}

// settle tells a node what it is owed.
func (t *round) settle(ctx context.Context, n *node) error {
	s := &t.shares[n.index]
	var err error
	for {
		t.mu.Lock()
		if err != nil || !t.due(n) {
			s.owed = false
			t.mu.Unlock()
			return nil
		}
		t.mu.Unlock()
		err = t.tell(ctx, n)
		t.mu.Lock()
		t.report(n, err)
		t.mu.Unlock()
		if unavailable(err) && err != errGiven {
			return err
		}
	}
}

// report tells a release that waits for a node how it went there. The mutex is held.
func (t *round) report(n *node, err error) {
	if s := &t.shares[n.index]; s.late {
		s.late = false
		t.late <- reply[struct{}]{node: n, err: err}
	}
}

// tell makes one call: of a round that is over the release, else what the lease lacks.
func (t *round) tell(ctx context.Context, n *node) error {
	t.mu.Lock()
	s := &t.shares[n.index]
	over, at, name, brief := t.over, s.at, s.name, s.brief && t.long > 0
	weight, long := t.req.Weight, t.long
	t.mu.Unlock()
	switch {
	case over:
		return t.giveBack(ctx, n, at, name)
	case brief:
		err := n.Renew(ctx, []engine.Renewal{{Resource: t.res, Held: name, TTL: long}})[0]
		if err == nil {
			t.mu.Lock()
			s.brief = false
			t.mu.Unlock()
		}
		return err
	}
	err := n.Resize(ctx, t.res, name, weight)
	t.weighs(n, name, weight, err)
	return err
}

// giveBack releases what is on one node, and returns what that counts for.
func (t *round) giveBack(ctx context.Context, n *node, at standing, name engine.Held) error {
	t.mu.Lock()
	s := &t.shares[n.index]
	r, unmark := t.how, s.unmark
	t.mu.Unlock()
	r.Resource, r.Held = t.res, name
	r.Withdraw = r.Withdraw || at == withdrawn // the request may still be under way
	err := release(ctx, n, r, at)
	if err == nil && unmark {
		err = t.breakMark(ctx, n)
	}
	switch {
	case err != nil:
		return err
	case r.Mark == 0 || at.marks():
		t.mu.Lock()
		defer t.mu.Unlock()
		s.at, s.unmark = s.at.after(confirms), false
		return nil
	case at == absent:
		return &engine.NotHeldError{Cause: engine.CauseReleased}
	}
	return errGiven
}

// errGiven stands for the answer of a node that has confirmed a release, and maybe not
// its mark.
var errGiven = fmt.Errorf("%w: it has not confirmed", engine.ErrUnavailable)

// release gives back what is on one node. A withdrawal is always answered yes, so it
// does not tell whether it has marked: where that matters, and the request may be
// still under way, it comes second.
func release(ctx context.Context, n *node, r engine.Release, at standing) error {
	if r.Mark == 0 || at != withdrawn {
		return n.Release(ctx, r)
	}
	plain := r
	plain.Withdraw = false
	marked := n.Release(ctx, plain)
	r.Mark = 0
	return errors.Join(marked, n.Release(ctx, r))
}

// end says that nothing shall be left of the round, and how it is given back. It returns
// the nodes that have yet to answer the request of a lease. They are left to their
// answer, and told gets what comes of it: a withdrawal would have to be remembered by the
// node for long, and for each lease that is given back so quickly.
func (t *round) end(r engine.Release, told chan reply[struct{}]) (late []*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over, t.how, t.late = true, r, told
	for i, n := range t.e.nodes {
		s := &t.shares[i]
		if s.late = s.at == asked && t.state == granted; s.late {
			late = append(late, n)
			continue
		}
		s.at = s.at.after(ends) // what answers late to the request finds it withdrawn
	}
	return late
}

// giveUp takes back what the round has, and what it still gets, in the background.
func (t *round) giveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, n := range t.e.nodes {
		t.owe(n)
	}
}

// recant makes the nodes refuse what a round that is over may still have under way,
// without waiting for their answers, which may be lost.
func (t *round) recant() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, n := range t.e.nodes {
		if s := &t.shares[i]; t.over && s.at == asked {
			s.at = s.at.after(ends)
			t.owe(n)
		}
	}
}

// settled tells whether no node has, or can still get, anything of the round.
func (t *round) settled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.shares {
		if at := t.shares[i].at; at == asked || at == held || at == unsure {
			return false
		}
	}
	return true
}

// on names the lease to a node.
func (t *round) on(n *node) engine.Held {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shares[n.index].name
}
