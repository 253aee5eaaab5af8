package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// quorumLease is one ballot, that is one token proposed to all nodes, and the lease if enough
// of them grant it. lease.go contains the vote, lease_node.go the state on each node, and
// lease_sync.go the calls that bring each node to the wanted state.
type quorumLease struct {
	e        *Engine
	res      engine.Resource
	holderID string
	token    uint64
	need     int // votes
	sent     time.Time
	request  engine.Request // zero: another process acquired the lease
	turn     *turn          // in the queues of the nodes; nil: the request does not wait

	mu           sync.Mutex
	onNode       []nodeLease
	votes        []vote        // by node
	provisional  bool          // the lease does not have its full TTL yet, and Acquire has not returned
	fullTTL      time.Duration // zero: the ballot requested the full TTL
	ended        bool          // the lease has to be removed from all nodes
	removal      engine.Release
	lateReplies  chan<- nodeReply[none] // of a release that waits for late answers
	verdict      verdict
	mostAnswered chan struct{} // closed at the verdict enoughAnswers
	decided      chan struct{} // closed at the verdicts granted and refused
}

// frontPlace is ahead of all turns. It is the place of a lease that is requested again, and of
// requests that only check for leases.
var frontPlace = engine.Held{Token: 1}

// propose runs a ballot under a new ID on the nodes, until it is decided. The request has the
// holder ID, and the token as ballot. yields, if not nil, is released in the same step.
func (e *Engine) propose(ctx context.Context, a *attemptState, r engine.Request, need int, yields *quorumLease, turn *turn) (t *quorumLease, ttl time.Duration, granted bool) {
	r.Yields = engine.Held{}
	t = &quorumLease{
		e: e, res: r.Resource, holderID: r.ID, token: r.Ballot, need: need, sent: time.Now(), request: r, turn: turn,
		onNode: make([]nodeLease, len(e.nodes)), votes: make([]vote, len(e.nodes)),
		decided: make(chan struct{}), mostAnswered: make(chan struct{}),
	}
	t.request.Queue, t.request.Turn = false, frontPlace
	turn.ballotSent()
	r.ID = a.nextLeaseID(r)
	for i := range e.nodes {
		t.onNode[i] = nodeLease{state: requested, name: engine.Held{ID: r.ID, Token: r.Ballot}, weight: r.Weight}
	}
	callNodes(ctx, e, t.clientID(), e.nodes, need, func(ctx context.Context, n *node) (engine.Answer, error) {
		if t.isEnded() {
			return engine.Answer{}, errNotCalled
		}
		r := r
		if yields != nil {
			r.Yields = yields.heldOn(n)
		}
		return n.Acquire(ctx, r)
	}, t.addVote)
	a.add(t)
	ttl, granted = t.wait(ctx)
	// The last token of a node that granted it includes the reserved tokens, even if the ballot
	// is withdrawn.
	e.tokens.observe(r.Resource, t.token+r.Reserve)
	return t, ttl, granted
}

// isEnded reports whether the ballot has to be removed from all nodes.
func (t *quorumLease) isEnded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// addVote records the answer of one node, which may come after the decision.
func (t *quorumLease) addVote(n *node, a engine.Answer, err error) {
	t.turn.recordAnswer(n, a, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recordAnswer(n, a, err)
	t.votes[n.index] = vote{answered: true, ans: a, err: err}
	if t.verdict >= granted {
		return
	}
	before := t.verdict
	t.verdict = decide(t.votes, t.need)
	if t.verdict >= enoughAnswers && before < enoughAnswers {
		close(t.mostAnswered)
	}
	if t.verdict >= granted {
		close(t.decided)
	}
}

// wait returns when the ballot is decided, when ctx or nodeTimeout has ended, or when enough nodes
// have answered and the grace period of the others is over. It returns the TTL of the lease, and
// whether it was granted.
func (t *quorumLease) wait(ctx context.Context) (time.Duration, bool) {
	most := t.mostAnswered
	timeout := time.NewTimer(nodeTimeout)
	defer timeout.Stop()
	for waiting := true; waiting; {
		select {
		case <-most:
			most = nil
			timeout.Reset(t.e.gracePeriod(t.unanswered(), time.Since(t.sent)))
			continue
		case <-t.decided:
		case <-timeout.C:
		case <-ctx.Done():
		}
		waiting = false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.verdict != granted {
		return 0, false
	}
	return grantedTTL(t.votes, t.need), true
}

// unanswered returns the nodes that have not answered the request.
func (t *quorumLease) unanswered() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	var nodes []*node
	for i, v := range t.votes {
		if !v.answered {
			nodes = append(nodes, t.e.nodes[i])
		}
	}
	return nodes
}

func (t *quorumLease) clientID() string { return engine.ClientOf(t.holderID) }

// votesSoFar returns a copy of the votes.
func (t *quorumLease) votesSoFar() []vote {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.votes)
}
