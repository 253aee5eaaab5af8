package quorum

import (
	"cmp"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// minSpareDelay and maxSpareDelay bound the time after which a ballot calls its spares if no voter fails.
const (
	minSpareDelay = 500 * time.Microsecond
	maxSpareDelay = 100 * time.Millisecond
)

// voters are the nodes that a ballot calls first, the other nodes, which are its spares, and after
// what time it calls these.
type voters struct {
	first, spares []*node
	delay         time.Duration
}

// voters returns as many nodes as must grant the lease, and the same ones in all processes for the
// same resource, so that concurrent ballots meet on all of them; nodes that lag come last. If fewer
// have answered before, all nodes are voters.
//
// Only a ballot for a resource of capacity 1 has spares: the holders of others are counted, for
// which all nodes are needed.
func (e *Engine) voters(r engine.Request, need int) voters {
	if r.Capacity > 1 || r.Mark > 0 || need == len(e.nodes) {
		return voters{first: e.nodes}
	}
	h := fnv.New32a()
	io.WriteString(h, r.Resource.Name)
	start := int(h.Sum32() % uint32(len(e.nodes)))
	return e.dispatcher.split(slices.Concat(e.nodes[start:], e.nodes[:start]), need)
}

// split makes voters of the first k nodes that are healthy, and of slow ones if those are too few. A node
// counts as slow, too, if it is farther away than others. The spares are called after three times the
// longest latency of the voters, within the bounds. If fewer than k nodes can be voters, all are.
func (d *dispatcher) split(nodes []*node, k int) voters {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, limit := time.Now(), d.inFlightLimit(k)
	far := farAbove(nodes, k, now)
	rank := func(n *node) health {
		switch h := n.health(now); {
		case n.latency == 0, h == slow && n.inFlight >= limit:
			return down
		case h == healthy && n.latency > far:
			return slow
		default:
			return h
		}
	}
	slices.SortStableFunc(nodes, func(a, b *node) int { return cmp.Compare(rank(a), rank(b)) })
	delay := minSpareDelay
	for _, n := range nodes[:k] {
		if rank(n) == down {
			return voters{first: d.nodes}
		}
		delay = max(delay, 3*n.latency)
	}
	return voters{nodes[:k], nodes[k:], min(delay, maxSpareDelay)}
}

// farAbove returns the latency above which a node is farther away than others: three times the
// k-th shortest one of those that are healthy. The mutex of the dispatcher is held.
func farAbove(nodes []*node, k int, now time.Time) time.Duration {
	var few [8]time.Duration
	usual := few[:0]
	for _, n := range nodes {
		if n.latency > 0 && n.health(now) == healthy {
			usual = append(usual, n.latency)
		}
	}
	if len(usual) < k {
		return math.MaxInt64
	}
	slices.Sort(usual)
	return max(minSpareDelay, 3*usual[k-1])
}
