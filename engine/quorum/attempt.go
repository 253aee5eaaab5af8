package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// memory is how long it is known what became of a holder ID.
const memory = 10 * time.Minute

// attempt is what is known of a holder ID of this process: the nodes do not know it,
// only its tries.
type attempt struct {
	turn chan struct{} // full while an Acquire is under way

	mu       sync.Mutex
	rounds   []*round // that may have left something, the lease included
	lease    *round   // nil: none
	deadline time.Time
	over     engine.Cause // 0: not ended
	waits    bool         // it was told to
	waiting  *turn        // by which it waits on the nodes; nil: it does not
	proposed uint64       // the latest token that was chosen here
	peak     uint64       // the highest that was proposed: no two tries may have one name
	repeats  int          // tries that were not above it
	keep     time.Time    // when it may be forgotten
}

// key names an attempt.
type key struct {
	resource engine.Resource
	id       string
}

// registry is the attempts of this process.
type registry struct {
	mu      sync.Mutex
	all     map[key]*attempt
	sweepAt int // number of attempts at which the old ones go
	ended   endings
}

func (g *registry) find(k key) *attempt {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.all[k]
}

// open finds an attempt, or begins it; one that has ended has nothing but its cause.
func (g *registry) open(k key) *attempt {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.all[k]; a != nil {
		return a
	}
	if over := g.ended.of(k); over != 0 {
		return &attempt{turn: make(chan struct{}, 1), over: over}
	}
	now := time.Now()
	if len(g.all) >= g.sweepAt {
		for other, a := range g.all {
			if a.old(now) {
				delete(g.all, other)
			}
		}
		g.sweepAt = 2*len(g.all) + 64
	}
	if g.all == nil {
		g.all = make(map[key]*attempt)
	}
	a := &attempt{turn: make(chan struct{}, 1), keep: now.Add(memory)}
	g.all[k] = a
	return a
}

// forget drops an attempt, but for how it ended, if it did.
func (g *registry) forget(k key, a *attempt, over engine.Cause) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all[k] == a {
		delete(g.all, k)
	}
	if over != 0 {
		g.ended.add(k, over)
	}
}

// ending tells how a holder ID ended, if nothing else is known of it.
func (g *registry) ending(k key) engine.Cause {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended.of(k)
}

func (a *attempt) old(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return now.After(a.keep)
}

// enter makes the caller the only one who asks for this ID.
func (a *attempt) enter(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

func (a *attempt) leave() { <-a.turn }

// standing returns the lease, or how the attempt ended, or neither.
func (a *attempt) standing() (*round, engine.Cause) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease, a.over
}

// end notes how the attempt ended, once.
func (a *attempt) end(c engine.Cause) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over == 0 {
		a.over = c
	}
	a.keep = time.Now().Add(memory)
}

// propose returns the token of the next try: above all that were heard of, and above
// those of the tries before, whatever the clock says.
func (a *attempt) propose(k *tokens, res engine.Resource) uint64 {
	next := k.next(res)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.proposed = max(next, a.proposed+1)
	return a.proposed
}

// name names the next try on the nodes. A token may be proposed more than once, if the
// caller gave it or those that were heard of were too far ahead, and a node refuses the
// name of a try that was withdrawn.
func (a *attempt) name(r engine.Request) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Ballot > a.peak {
		a.peak = r.Ballot
		return tryID(r.ID, r.Ballot)
	}
	a.repeats++
	return repeatID(r.ID, r.Ballot, a.repeats)
}

// tooFar goes back to what the clock says, since a node takes the proposals for too far
// ahead: they follow one node whose clock is wrong, and the others can do without it.
func (a *attempt) tooFar(k *tokens, res engine.Resource) {
	k.forget(res)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.proposed = 0
}

// linger keeps an attempt without a lease for as long as its tries may be under way.
func (a *attempt) linger() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over == 0 && a.lease == nil {
		a.keep = time.Now().Add(insistence)
	}
}

// add notes that a round has begun.
func (a *attempt) add(t *round) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rounds = append(a.rounds, t)
}

// win makes a round the lease; it returns false if the attempt was ended meanwhile.
func (a *attempt) win(t *round, ttl time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over != 0 {
		return false
	}
	a.lease = t
	a.extend(t.sent, ttl)
	return true
}

// extend notes until when a majority keeps the lease. The mutex is held.
func (a *attempt) extend(sent time.Time, ttl time.Duration) {
	if end := sent.Add(ttl); end.After(a.deadline) {
		a.deadline = end
	}
	a.keep = a.deadline.Add(memory)
}

// lose takes out a round of which nothing shall be left.
func (a *attempt) lose(t *round) {
	t.giveUp()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lease == t {
		a.lease = nil
	}
	// Rounds in which a call is still unanswered stay, so that a release that is
	// waited for can see to them. The latest few do: the others see to themselves.
	live := a.rounds[:0]
	for _, r := range a.rounds {
		if !r.settled() {
			live = append(live, r)
		}
	}
	a.rounds = live[max(0, len(live)-4):]
}

// recant makes the nodes refuse what earlier tries may still have under way, without
// waiting for their answers, which may be lost.
func (a *attempt) recant() {
	a.mu.Lock()
	rounds := append([]*round(nil), a.rounds...)
	a.mu.Unlock()
	for _, t := range rounds {
		t.recant()
	}
}
