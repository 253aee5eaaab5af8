package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// quorumLease is one ballot, that is one token proposed to the nodes, and the lease if enough
// of them grant it. lease_node.go contains the state on each node, and
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
	markFrom time.Time      // request.Mark counts from here

	mu          sync.Mutex
	onNode      []nodeLease
	granted     bool          // enough nodes have granted it
	provisional bool          // the lease does not have its full TTL yet, and Acquire has not returned
	fullTTL     time.Duration // zero: the ballot requested the full TTL
	ended       bool          // the lease has to be removed from all nodes
	removal     engine.Release
	lateReplies chan<- nodeReply[none] // of a release that waits for late answers
}

// frontPlace is ahead of all turns. It is the place of a lease that is requested again, and of
// requests that only check for leases.
var frontPlace = engine.Held{Token: 1}

// propose runs a ballot under a new ID until it is decided, ctx or nodeTimeout has ended, or enough
// nodes have answered and the grace period of the others is over. It calls the voters; if one of
// them fails, they do not answer in the usual time, or their answers do not decide the ballot,
// it calls the spares too. The request has the holder ID, and the token as ballot. yields, if
// not nil, is released in the same step.
func (e *Engine) propose(ctx context.Context, a *attemptState, r engine.Request, need int, among voters, yields *quorumLease, turn *turn) (t *quorumLease, votes []vote, v verdict) {
	r.Yields = engine.Held{}
	t = &quorumLease{
		e: e, res: r.Resource, holderID: r.ID, token: r.Ballot, need: need, sent: time.Now(), request: r, turn: turn,
		onNode: make([]nodeLease, len(e.nodes)),
	}
	t.request.Queue, t.request.Turn = false, frontPlace
	r.ID = a.nextLeaseID(r)
	for i := range e.nodes {
		t.onNode[i] = nodeLease{state: requested, name: engine.Held{ID: r.ID, Token: r.Ballot}, weight: r.Weight}
	}
	for _, n := range among.spares {
		t.onNode[n.index].state = spare
	}
	p := newFanOut[engine.Answer](ctx, e, nil)
	call := func(nodes []*node, need int) {
		p.unanswered = append(p.unanswered, nodes...)
		p.send(t.clientID(), nodes, need, func(ctx context.Context, n *node) (engine.Answer, error) {
			if t.isEnded() {
				return engine.Answer{}, errNotCalled
			}
			r := r
			if yields != nil {
				r.Yields = yields.on(n).name
			}
			return n.Acquire(ctx, r)
		}, func(n *node, ans engine.Answer, err error) {
			if turn != nil {
				turn.recordAnswer(n, ans, err)
			}
			t.recordAnswer(n, ans, err)
		})
	}
	call(among.first, need)
	a.add(t)
	votes = make([]vote, len(e.nodes))
	if len(among.spares) > 0 {
		p.timer.Reset(among.delay)
		if v = awaitVotes(p, votes, need, true); v < granted && ctx.Err() == nil {
			p.timer.Reset(nodeTimeout)
			spares := slices.DeleteFunc(among.spares, func(n *node) bool { return !t.takeSpare(n) })
			if turn != nil {
				turn.ballotSent(spares)
			}
			call(spares, need-countStatus(votes, engine.Granted))
		}
	}
	if v < granted {
		v = awaitVotes(p, votes, need, false)
	}
	t.mu.Lock()
	t.granted, t.markFrom = v == granted, time.Now()
	t.mu.Unlock()
	// The last token of a node that granted it includes the reserved tokens, even if the ballot
	// is withdrawn.
	e.tokens.observe(r.Resource, t.token+r.Reserve)
	return t, votes, v
}

// awaitVotes records votes until they decide the ballot. With returnOnError it also returns when a node
// has failed; without, the grace period begins when enough nodes have answered.
func awaitVotes(p *fanOut[engine.Answer], votes []vote, need int, returnOnError bool) verdict {
	v := decide(votes, need)
	if v == enoughAnswers && !returnOnError {
		p.startGrace()
	}
	for reply := range p.answers() {
		votes[reply.node.index] = vote{answered: true, ans: reply.value, err: reply.err}
		v = decide(votes, need)
		switch {
		case v >= granted, returnOnError && reply.err != nil:
			return v
		case v == enoughAnswers && !returnOnError:
			p.startGrace()
		}
	}
	return v
}

// isEnded reports whether the ballot has to be removed from all nodes.
func (t *quorumLease) isEnded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

func (t *quorumLease) clientID() string { return engine.ClientOf(t.holderID) }
