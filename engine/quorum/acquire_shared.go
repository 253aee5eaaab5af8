package quorum

import (
	"context"
	"fmt"
	"maps"

	"github.com/holdfast-go/holdfast/engine"
)

// sharedCheck distinguishes, for one Acquire of a shared resource, leases from what else the nodes
// have: ballots that fail, and leases of processes that died in Acquire.
type sharedCheck struct {
	e        *Engine
	remnants []remnant // found by the previous check
}

// remnant is a lease that one node extended to its full TTL, and that too few nodes have.
type remnant struct {
	n     *node
	held  engine.Held // its ID and token on the node
	lease engine.Held // its holder ID and token
}

// onlyBallotsInTheWay reports whether a request is Busy because of other ballots only. A request
// with a given token only checks for leases: the answer is Outbid if its token is too low, and
// an error if the state is not certain, since a grant for the claim window may be that of a
// process that has died.
func (c *sharedCheck) onlyBallotsInTheWay(ctx context.Context, r engine.Request, ans *engine.Answer, given uint64) (bool, error) {
	e := c.e
	all, err := e.snapshots(ctx, engine.ClientOf(r.ID), r.Resource)
	if err != nil {
		return false, err
	}
	leases := observe(all)
	maps.DeleteFunc(leases, func(k engine.Held, _ *observedLease) bool { return k.ID == r.ID })
	need, unseen := e.votesNeeded(r.Kind, r.Capacity), len(e.nodes)-len(all)
	sure, most, last := r.Weight, r.Weight, uint64(0)
	for _, l := range leases {
		certain, weight := 0, 0
		for i, ttl := range l.ttls {
			if weight = max(weight, l.weights[i]); ttl > engine.ClaimWindow {
				certain++
			}
		}
		if certain >= need || l.nodes() >= need && given == 0 {
			sure += weight
		}
		if l.nodes()+unseen >= need {
			most += weight
		}
	}
	for _, one := range all {
		last = max(last, one.Token)
	}
	c.withdrawRemnants(r, all, leases, need)
	switch {
	case sure > r.Capacity, most > r.Capacity && given == 0:
		return false, nil
	case most > r.Capacity:
		return false, fmt.Errorf("%w: quorum: %d of %d nodes show the holders, some of which are not certain yet", engine.ErrUnavailable, len(all), len(e.nodes))
	case given != 0 && given <= last:
		*ans = engine.Answer{Status: engine.Outbid, Last: last}
		return false, nil
	}
	return true, nil
}

// withdrawRemnants withdraws the leases of processes that died while they extended a lease to
// its full TTL. Such a lease had the full TTL on a node at the previous check, and is now missing
// on so many nodes that too few can have it. Some of these nodes had granted it before that check
// began, so it has ended there since: either its Acquire did not return it, or the next renewal
// of its holder reports that it is lost.
func (c *sharedCheck) withdrawRemnants(r engine.Request, all []nodeSnapshot, leases map[engine.Held]*observedLease, need int) {
	unseen := len(c.e.nodes) - len(all)
	for _, old := range c.remnants {
		if leases[old.lease].nodes()+unseen < need {
			c.e.releaseInBackground(old.n, engine.ClientOf(r.ID), engine.Release{Resource: r.Resource, Held: old.held, Withdraw: true})
		}
	}
	c.remnants = nil
	for _, one := range all {
		for _, h := range one.Holders {
			if lease := leaseOf(h); h.TTL > maxProvisionalTTL && leases[lease].nodes()+unseen < need {
				c.remnants = append(c.remnants, remnant{one.node, engine.Held{ID: h.ID, Token: h.Token}, lease})
			}
		}
	}
}
