package quorum

import (
	"cmp"
	"hash/fnv"
	"io"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// minSpareDelay is the minimum time after which a ballot calls the spares. A spare is called after
// three times the usual latency of the nodes, or at once after an error.
const minSpareDelay = 500 * time.Microsecond

// voters returns the nodes that a ballot calls first, the other nodes, which are its spares, and
// after what time it calls these. The voters are as many as must grant the lease, and the same ones in all
// processes for the same resource, so that concurrent ballots meet on all of them; nodes that lag
// come last. If fewer have answered before, all nodes are voters.
//
// Only a ballot for a resource of capacity 1 has spares: the holders of others are counted, for
// which all nodes are needed.
func (e *Engine) voters(r engine.Request, need int) (voters, spares []*node, delay time.Duration) {
	if r.Capacity > 1 || r.Mark > 0 || need == len(e.nodes) {
		return e.nodes, nil, 0
	}
	h := fnv.New32a()
	io.WriteString(h, r.Resource.Name)
	start := int(h.Sum32() % uint32(len(e.nodes)))
	return e.dispatcher.split(slices.Concat(e.nodes[start:], e.nodes[:start]), need)
}

// split returns the first k nodes that are healthy, and slow ones if those are too few, the other
// nodes, and three times the longest latency of the first.
func (d *dispatcher) split(nodes []*node, k int) (first, rest []*node, delay time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	delay = minSpareDelay
	limit := d.inFlightLimit(k)
	rank := func(n *node) health {
		h := n.health(now)
		if n.latency == 0 || h == slow && n.inFlight >= limit {
			return down
		}
		return h
	}
	var few [8]time.Duration
	usual := few[:0]
	for _, n := range nodes {
		if rank(n) == healthy {
			usual = append(usual, n.latency)
		}
	}
	if slices.Sort(usual); len(usual) >= k {
		most := max(minSpareDelay, 3*usual[k-1])
		fast := rank
		rank = func(n *node) health {
			if h := fast(n); h != healthy || n.latency <= most {
				return h
			}
			return slow
		}
	}
	slices.SortStableFunc(nodes, func(a, b *node) int { return cmp.Compare(rank(a), rank(b)) })
	for _, n := range nodes[:k] {
		if rank(n) == down {
			return d.nodes, nil, 0
		}
		delay = max(delay, 3*n.latency)
	}
	return nodes[:k], nodes[k:], delay
}
