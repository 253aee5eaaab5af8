package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// standing is what a round may have on a node.
type standing uint8

const (
	absent standing = iota // nothing: not asked, or refused
	asked                  // no answer has come yet
	held
	unsure    // the call failed: it may be there
	given     // it was held; told to give it back
	withdrawn // it may have been there; told that it must not
	returned  // given or withdrawn, and confirmed
)

// some tells whether something has still to be given back.
func (s standing) some() bool { return s == asked || s == held || s == unsure }

// ended is the standing when that is done, as far as the node has been told.
func (s standing) ended() standing {
	switch s {
	case held:
		return given
	case asked, unsure:
		return withdrawn
	}
	return s
}

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

	mu      sync.Mutex
	there   []engine.Held         // by node, what the lease is called there
	at      []standing            // by node
	votes   []vote                // by node
	weights []int                 // by node, what it is known to count; req has what it should
	brief   bool                  // it has yet to be prolonged, which nobody was told of
	long    time.Duration         // the TTL to which it was prolonged
	over    bool                  // nothing shall be left
	late    func(*node, standing) // not nil: what to do about a node that answers when it is over
	decided chan struct{}
	most    chan struct{} // closed when as many as are needed have answered
	state   verdict
}

// tooLate: a majority granted, but not while the grant could be used.
var errTooLate = errors.New("the grant came when its time was nearly over")

// propose begins a round under a name on the nodes that no round before had. The
// request has the holder ID, and the token as ballot.
func (e *Engine) propose(ctx context.Context, name string, r engine.Request, need int, yields []engine.Held) *round {
	n := len(e.nodes)
	t := &round{
		e: e, res: r.Resource, holder: r.ID, token: r.Ballot, need: need, sent: time.Now(),
		there: make([]engine.Held, n), at: make([]standing, n), votes: make([]vote, n),
		weights: slices.Repeat([]int{r.Weight}, n),
		decided: make(chan struct{}), most: make(chan struct{}),
	}
	r.Queue, r.Yields = false, engine.Held{}
	t.req = r
	to := e.pick(need)
	for i := range e.nodes {
		t.there[i] = engine.Held{ID: name, Token: r.Ballot}
		t.votes[i] = vote{in: true, err: errLeftOut}
	}
	for _, node := range to {
		t.at[node.index], t.votes[node.index] = asked, vote{}
	}
	free := context.WithoutCancel(ctx)
	e.crews.send(engine.ClientOf(r.ID), to, need, func(w *crew, n *node) {
		if w.ctx.Err() != nil || t.past() {
			t.hear(n, engine.Answer{}, errNotSent)
			return
		}
		a, err := ask(free, w, n, func(ctx context.Context, n *node) (engine.Answer, error) {
			mine := r
			mine.ID = name
			if yields != nil {
				mine.Yields = yields[n.index]
			}
			return n.Acquire(ctx, mine)
		})
		t.hear(n, a, err)
	})
	return t
}

// errLeftOut stands for the answer of a node that was not asked.
var errLeftOut = fmt.Errorf("%w: it has been silent of late", engine.ErrUnavailable)

// errNotSent stands for the answer of a node that was not asked since it was too late.
var errNotSent = errors.New("it was not asked any more")

// past tells whether nothing shall be left of the round.
func (t *round) past() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// hear takes in the answer of one node, which may come after the decision.
func (t *round) hear(n *node, a engine.Answer, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := t.at[n.index] == asked
	switch {
	case !due: // it was withdrawn meanwhile
	case err == nil && a.Status == engine.Granted:
		t.at[n.index] = held
	case unavailable(err):
		t.at[n.index] = unsure
	default:
		t.at[n.index] = absent
	}
	if due {
		t.lighten(n)
	}
	if t.long > 0 && due && t.at[n.index] == held {
		r := engine.Renewal{Resource: t.res, Held: t.there[n.index], TTL: t.long}
		t.e.insistOn(n, t.client(), func(ctx context.Context, n *node) error { return n.Renew(ctx, []engine.Renewal{r})[0] })
	}
	t.votes[n.index] = vote{in: true, ans: a, err: err}
	t.follow(n, due)
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

// follow sees to what a node has when its answer came after the end. An answer is due
// unless it was withdrawn meanwhile. The mutex is held.
func (t *round) follow(n *node, due bool) {
	switch {
	case due && t.late != nil:
		was := t.at[n.index]
		t.at[n.index] = was.ended()
		t.late(n, was)
	case t.over:
		t.clear(n)
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
			slow.Reset(grace(t.unheard(), time.Since(t.sent)))
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

// giveUp takes back what the round has, and what it still gets, in the background.
func (t *round) giveUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for _, n := range t.e.nodes {
		t.clear(n)
	}
}

// clear gives back what is on a node, unless the answer is still to come. The mutex
// is held.
func (t *round) clear(n *node) {
	was := t.at[n.index]
	if was != held && was != unsure {
		return
	}
	t.at[n.index] = was.ended()
	t.e.insist(n, t.client(), t.ending(n, was))
}

// ending is the release of what is on a node.
func (t *round) ending(n *node, was standing) engine.Release {
	return engine.Release{
		Resource: t.res,
		Held:     t.there[n.index],
		Withdraw: was != held, // the request may still be under way
	}
}

// client is the one that the round works for.
func (t *round) client() string { return engine.ClientOf(t.holder) }

// on names the lease to a node.
func (t *round) on(n *node) engine.Held {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.there[n.index]
}

// ballots returns what was said, with what is missing.
func (t *round) ballots() []vote {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]vote(nil), t.votes...)
}
