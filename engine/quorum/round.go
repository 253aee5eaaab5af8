package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// round is one try to get a lease: one token, proposed to all nodes, and the lease
// if enough of them grant it.
type round struct {
	e      *Engine
	res    engine.Resource
	holder string // holder ID
	token  uint64
	need   int
	sent   time.Time
	req    engine.Request // zero: it was taken by another process
	turn   *turn          // by which it waits; nil: it does not

	mu      sync.Mutex
	shares  []share       // by node
	votes   []vote        // by node
	brief   bool          // it has yet to be prolonged, which nobody was told of
	long    time.Duration // the TTL to which it was prolonged
	over    bool          // nothing shall be left
	how     engine.Release
	late    chan<- reply[struct{}] // of a release that waits for late answers
	decided chan struct{}
	most    chan struct{} // closed when as many as are needed have answered
	state   verdict
}

// tooLate: a majority granted, but not while the grant could be used.
var errTooLate = errors.New("the grant came when its time was nearly over")

// foremost is the place of those who pass all that wait: they have the lease, and vote
// on for it, or ask only to learn who has.
var foremost = engine.Held{Token: 1}

// propose begins a round under a name on the nodes that no round before had. The
// request has the holder ID, and the token as ballot.
func (e *Engine) propose(ctx context.Context, name string, r engine.Request, need int, yields []engine.Held, turn *turn) *round {
	n := len(e.nodes)
	t := &round{
		e: e, res: r.Resource, holder: r.ID, token: r.Ballot, need: need, sent: time.Now(),
		shares: make([]share, n), votes: make([]vote, n),
		decided: make(chan struct{}), most: make(chan struct{}), turn: turn,
	}
	r.Yields = engine.Held{}
	t.req = r
	t.req.Queue, t.req.Turn = false, foremost
	to := e.pick(need)
	turn.asks(to)
	for i := range e.nodes {
		t.shares[i] = share{name: engine.Held{ID: name, Token: r.Ballot}, weight: r.Weight}
		t.votes[i] = vote{in: true, err: errLeftOut}
	}
	for _, node := range to {
		s := &t.shares[node.index]
		s.at, t.votes[node.index] = s.at.after(asks), vote{}
	}
	fan(ctx, e, t.client(), to, need, func(ctx context.Context, n *node) (engine.Answer, error) {
		if t.past() {
			return engine.Answer{}, errLeftOut
		}
		mine := r
		mine.ID = name
		if yields != nil {
			mine.Yields = yields[n.index]
		}
		return n.Acquire(ctx, mine)
	}, t.hear)
	return t
}

// past tells whether nothing shall be left of the round.
func (t *round) past() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// hear takes in the answer of one node, which may come after the decision.
func (t *round) hear(n *node, a engine.Answer, err error) {
	t.turn.hear(n, a, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer(n, a, err)
	t.votes[n.index] = vote{in: true, ans: a, err: err}
	if t.state == granted || t.state == refused {
		return
	}
	was := t.state
	t.state = judge(t.votes, t.need)
	if t.state >= nearly && was < nearly {
		close(t.most)
	}
	if t.state >= granted {
		close(t.decided)
	}
}

// wait returns when the round is decided, ctx or the patience has ended, or as many as
// are needed have answered and the others are slow. It tells whether the lease is held, for how long.
func (t *round) wait(ctx context.Context) (time.Duration, bool) {
	most := t.most
	slow := time.NewTimer(patience)
	defer slow.Stop()
	for waiting := true; waiting; {
		select {
		case <-t.decided:
			waiting = false
		case <-most:
			most = nil
			slow.Reset(t.e.grace(t.unheard(), time.Since(t.sent)))
		case <-slow.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != granted {
		return 0, false
	}
	return window(t.votes, t.need), true
}

// unheard returns the nodes that have not answered the request.
func (t *round) unheard() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	var nodes []*node
	for i, v := range t.votes {
		if !v.in {
			nodes = append(nodes, t.e.nodes[i])
		}
	}
	return nodes
}

// client is the one that the round works for.
func (t *round) client() string { return engine.ClientOf(t.holder) }

// ballots returns what was said, with what is missing.
func (t *round) ballots() []vote {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]vote(nil), t.votes...)
}
