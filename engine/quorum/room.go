package quorum

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/engine"
)

// looks are what one Acquire sees of the parties of a shared resource: nodes are also
// occupied by tries that fail, and by what is left of processes that died.
type looks struct {
	e      *Engine
	before []remnant // that the look before has seen
}

// remnant is a lease on a node, which was told that it was granted.
type remnant struct {
	n    *node
	held engine.Held // its name there
	id   engine.Held // its holder ID and token
}

// party is one lease as the nodes show it.
type party struct {
	nodes     int
	prolonged int // nodes on which it is more than a grant that may be nobody's
	weight    int
}

// beside tells whether a request that is Busy is kept out by others who try, and by
// nothing else. A request that proposes a given token only wants to know: if it would
// be outbid, it is told so, and nothing that is unsure: a grant for the claim window may
// be that of a process that has died.
func (l *looks) beside(ctx context.Context, r engine.Request, ans *engine.Answer, given uint64) (split bool, err error) {
	e := l.e
	all, err := e.survey(ctx, engine.ClientOf(r.ID), whole(r.Resource))
	if err != nil {
		return false, err
	}
	need, unseen := e.needed(r.Kind, r.Capacity), len(e.nodes)-len(all)
	sure, most := r.Weight, r.Weight
	parties := partiesOf(all, r.ID)
	for _, p := range parties {
		if p.prolonged >= need || p.nodes >= need && given == 0 {
			sure += p.weight
		}
		if p.nodes+unseen >= need {
			most += p.weight
		}
	}
	l.sweep(r, all, parties, need)
	switch {
	case sure > r.Capacity, most > r.Capacity && given == 0:
		return false, nil
	case most > r.Capacity:
		return false, fmt.Errorf("%w: quorum: %d of %d nodes show who holds, and some of that is not certain yet", engine.ErrUnavailable, len(all), len(e.nodes))
	case given != 0 && given <= lastOf(all):
		*ans = engine.Answer{Status: engine.Outbid, Last: lastOf(all)}
		return false, nil
	}
	return true, nil
}

// partiesOf counts on how many nodes each lease is, but those of one holder ID.
func partiesOf(all []sight, but string) map[engine.Held]party {
	parties := map[engine.Held]party{}
	for _, one := range all {
		here := map[engine.Held]bool{} // it may have two names on a node
		for _, h := range one.snap.Holders {
			id := asHeld(h)
			if id.ID == but || here[id] {
				continue
			}
			here[id] = true
			p := parties[id]
			p.nodes++
			if h.TTL > engine.ClaimWindow {
				p.prolonged++
			}
			p.weight = max(p.weight, h.Weight)
			parties[id] = p
		}
	}
	return parties
}

func lastOf(all []sight) uint64 {
	last := uint64(0)
	for _, one := range all {
		last = max(last, one.snap.Token)
	}
	return last
}

// sweep takes out what is left of a process that died as it prolonged its lease: what
// was prolonged on a node at the look before, and is missing now on more nodes than a
// lease can do without. It had been granted on enough of them before that look began, so
// it has ended there since, and nobody was told of it or is told that it is lost.
func (l *looks) sweep(r engine.Request, all []sight, parties map[engine.Held]party, need int) {
	unseen := len(l.e.nodes) - len(all)
	for _, old := range l.before {
		if parties[old.id].nodes+unseen >= need {
			continue
		}
		release := engine.Release{Resource: r.Resource, Held: old.held, Withdraw: true}
		l.e.takeBack(old.n, engine.ClientOf(r.ID), release)
	}
	l.before = nil
	for _, one := range all {
		for _, h := range one.snap.Holders {
			if h.TTL > longestTry && parties[asHeld(h)].nodes+unseen < need {
				l.before = append(l.before, remnant{one.node, engine.Held{ID: h.ID, Token: h.Token}, asHeld(h)})
			}
		}
	}
}
