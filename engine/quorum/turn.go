package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// An attempt that waits has a turn on the nodes, at a place that is the token it first
// proposed: so all nodes have those who wait in one order, and on each of them nobody
// passes its front. A node on which the turn is at the front and fits calls it. When so
// many nodes have called that a ballot can succeed, the attempt is told to ask.

// turn is how one attempt waits. A nil turn does not.
type turn struct {
	e    *Engine
	res  engine.Resource
	id   string      // holder ID
	held engine.Held // its ID on the nodes, and its place

	mu    sync.Mutex
	on    []standsOn // by node
	wants int        // how many calls make a ballot succeed; 0: one is under way
	told  bool       // to ask, since the latest ballot
	asked time.Time  // when the latest ballot was sent
	over  bool
}

// standsOn is what is known of a turn on one node.
type standsOn struct {
	there   bool // it may be in the line
	unsure  bool // a request that was not answered may put it there later
	pending int  // ballots that are not answered
	crossed bool // there were several of them at once, so the node's order is unknown
	called  bool // since the latest ballot
}

// callWait is how long a turn that was called waits for further calls, since those
// who release a lease tell all nodes at once.
const callWait = 20 * time.Millisecond

// takeTurn returns the turn of an attempt that waits, and adds it to a request.
func (a *attempt) takeTurn(e *Engine, r *engine.Request) *turn {
	if !r.Queue {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == nil && a.over == 0 {
		a.waiting = &turn{
			e: e, res: r.Resource, id: r.ID, on: make([]standsOn, len(e.nodes)),
			held: engine.Held{ID: turnID(r.ID, r.Ballot), Token: r.Ballot},
		}
		e.turns.add(a.waiting)
	}
	if a.waiting == nil {
		r.Queue = false
		return nil
	}
	r.Turn = a.waiting.held
	return a.waiting
}

// noTurn returns the turn of an attempt, if it has one, which waits no more.
func (a *attempt) noTurn() *turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.waiting
	a.waiting = nil
	return t
}

// endTurn takes the turn of an attempt out of the lines, if it has one: where a ballot
// has yet to be answered when it is.
func (a *attempt) endTurn() {
	t := a.noTurn()
	for _, n := range t.close() {
		t.e.takeBack(n, engine.ClientOf(t.id), t.out(n))
	}
}

// leaveLines is endTurn that returns when the nodes have answered: who withdraws is in
// nobody's way any more.
func (a *attempt) leaveLines(ctx context.Context) {
	t := a.noTurn()
	to := t.close()
	if len(to) == 0 {
		return
	}
	p := open[struct{}](t.e, ctx, len(to))
	client := engine.ClientOf(t.id)
	p.ask(client, to, func(ctx context.Context, n *node) (struct{}, error) {
		err := n.Release(ctx, t.out(n))
		if unavailable(err) {
			t.e.takeBack(n, client, t.out(n))
		}
		return struct{}{}, err
	}, func(n *node) { t.e.takeBack(n, client, t.out(n)) })
	p.hurry()
	for more := true; more; {
		_, more = p.next()
	}
}

// close ends the turn, and returns the nodes that it has to be taken out of.
func (t *turn) close() (to []*node) {
	if t == nil {
		return nil
	}
	t.e.turns.remove(t)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for i, n := range t.e.nodes {
		if t.on[i].leaves() {
			to = append(to, n)
		}
	}
	return to
}

// leaves notes that the turn is taken out of the line of a node, and tells whether there
// is anything to be taken out, and no ballot that could put it there again.
func (s *standsOn) leaves() bool {
	out := s.there && s.pending == 0
	s.there = s.there && !out
	return out
}

// out is removal for one who has not the mutex.
func (t *turn) out(n *node) engine.Release {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.removal(n)
}

// removal is the release that takes the turn out of the line of a node. The mutex is held.
func (t *turn) removal(n *node) engine.Release {
	return engine.Release{Resource: t.res, Held: engine.Held{ID: t.held.ID}, Withdraw: t.on[n.index].unsure}
}

// asks notes that a ballot is sent.
func (t *turn) asks(to []*node) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wants, t.told, t.asked = 0, false, time.Now()
	for i := range t.on {
		t.on[i].called = false
	}
	for _, n := range to {
		s := &t.on[n.index]
		s.crossed = s.pending > 0
		s.pending++
	}
}

// hear takes in what a node answered to a ballot. One that granted has taken the turn
// out of its line; but if another ballot was under way, or has been lost, it may have put
// it there again since: answers come in any order.
func (t *turn) hear(n *node, a engine.Answer, err error) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.on[n.index]
	s.pending--
	switch {
	case err == errLeftOut: // it was not sent
	case unavailable(err):
		s.there, s.unsure = true, true
	case err == nil && a.Status == engine.Busy:
		s.there = true
	case err == nil && (a.Status == engine.Granted || a.Status == engine.Marked):
		s.there = s.there && (s.crossed || s.unsure)
	}
	t.takeOut(n)
}

// refused notes that a ballot has failed, and by how many nodes. It tells whether so
// many have called meanwhile.
func (t *turn) refused(by int) (called bool) {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wants = max(1, by)
	return t.calls() >= t.wants
}

// calls counts the nodes that have called since the latest ballot. The mutex is held.
func (t *turn) calls() int {
	calls := 0
	for _, s := range t.on {
		if s.called {
			calls++
		}
	}
	return calls
}

// call notes that a node has called the turn, and tells the client to ask, by one of its
// streams, if the calls are enough, or no others come for a while.
func (t *turn) call(n *node, s *stream) {
	t.mu.Lock()
	t.on[n.index].called = true
	calls, asked := t.calls(), t.asked
	enough := t.wants > 0 && calls >= t.wants
	t.mu.Unlock()
	switch {
	case enough:
		t.tell(s, asked)
	case calls == 1:
		time.AfterFunc(callWait, func() { t.tell(s, asked) })
	}
}

// tell tells the client to ask, unless it was told or has asked since.
func (t *turn) tell(s *stream, asked time.Time) {
	t.mu.Lock()
	due := !t.told && !t.over && t.asked == asked
	t.told = t.told || due
	t.mu.Unlock()
	if due {
		s.send(engine.Wakeup{Kind: engine.Resync, ID: t.id})
	}
}

// takeOut takes a turn that is over out of the line of one node. The mutex is held.
func (t *turn) takeOut(n *node) {
	if t.over && t.on[n.index].leaves() {
		t.e.takeBack(n, engine.ClientOf(t.id), t.removal(n))
	}
}

// turns are those of this process, by their IDs on the nodes.
type turns struct {
	mu      sync.Mutex
	all     map[string]*turn
	sweepAt int // number of turns at which those that were forsaken go
}

func (all *turns) add(t *turn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.all) >= all.sweepAt {
		for id, old := range all.all {
			if old.forsaken() {
				delete(all.all, id)
			}
		}
		all.sweepAt = 2*len(all.all) + 64
	}
	if all.all == nil {
		all.all = make(map[string]*turn)
	}
	all.all[t.held.ID] = t
}

// forsaken tells whether nobody has asked by the turn for so long that no node keeps it.
func (t *turn) forsaken() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.asked) > insistence
}

func (all *turns) find(id string) *turn {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.all[id]
}

func (all *turns) remove(t *turn) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.all, t.held.ID)
}
