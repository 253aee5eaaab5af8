package quorum

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// nodeSnapshot is the snapshot of a resource on one node.
type nodeSnapshot struct {
	engine.Snapshot
	node *node
	more bool // the node may have holders that the snapshot does not show
}

// observedLease is one lease as the nodes show it.
type observedLease struct {
	holder  engine.Holder // with the lease's own ID and token
	shows   []bool        // which snapshots show it
	ttls    []time.Duration
	weights []int // they differ if a node has missed the latest Resize
}

// nodes returns the number of nodes that have the lease; 0 for nil.
func (l *observedLease) nodes() int {
	if l == nil {
		return 0
	}
	return len(l.ttls)
}

// observe returns the leases that nodes show.
func observe(all []nodeSnapshot) map[engine.Held]*observedLease {
	leases := map[engine.Held]*observedLease{}
	for i, one := range all {
		for _, h := range one.Holders {
			k := leaseOf(h)
			l := leases[k]
			if l == nil {
				l = &observedLease{holder: asLease(h), shows: make([]bool, len(all))}
				leases[k] = l
			}
			l.holder.Breaking = l.holder.Breaking || h.Breaking
			if h.Since.Before(l.holder.Since) {
				l.holder.Since = h.Since // the others granted it later
			}
			if l.shows[i] {
				continue // a lease that is being restored may have two IDs on a node
			}
			l.shows[i] = true
			l.ttls, l.weights = append(l.ttls, h.TTL), append(l.weights, h.Weight)
		}
	}
	return leases
}

// snapshots returns the snapshots of at least a majority of the nodes.
func (e *Engine) snapshots(ctx context.Context, client string, res engine.Resource) ([]nodeSnapshot, error) {
	return collect(ctx, e, client, "showed the resource", func(ctx context.Context, n *node) (nodeSnapshot, error) {
		s, err := n.Snapshot(ctx, res)
		return nodeSnapshot{Snapshot: s, node: n}, err
	})
}

// Snapshot implements engine.Engine. A holder is shown if a majority can have
// granted it, counting nodes that do not answer. Waiters are not shown.
func (e *Engine) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	if err := e.ready(ctx); err != nil {
		return engine.Snapshot{}, err
	}
	all, err := e.snapshots(ctx, "", res)
	if err != nil {
		return engine.Snapshot{}, err
	}
	return e.merge(res, all), nil
}

// merge merges the snapshots of the nodes.
func (e *Engine) merge(res engine.Resource, all []nodeSnapshot) engine.Snapshot {
	type kind struct {
		kind     engine.Kind
		capacity int
	}
	unseen := len(e.nodes) - len(all)
	s := engine.Snapshot{Resource: res, NoWaiters: true} // the nodes have only the turns of waiters
	kinds := map[kind]int{}
	for _, one := range all {
		if one.Kind == "" {
			continue
		}
		k := kind{one.Kind, one.Capacity}
		if kinds[k]++; s.Kind == "" || kinds[k] > kinds[kind{s.Kind, s.Capacity}] {
			s.Kind, s.Capacity = k.kind, k.capacity
		}
	}
	need := e.votesNeeded(s.Kind, s.Capacity)
	for _, l := range observe(all) {
		if l.nodes()+unseen < need {
			continue
		}
		slices.Sort(l.ttls)
		slices.Sort(l.weights)
		l.holder.Weight = l.weights[(len(l.weights)-1)/2]
		l.holder.TTL = l.ttls[max(0, len(l.ttls)-max(1, need-unseen))]
		s.Holders = append(s.Holders, l.holder)
	}
	slices.SortFunc(s.Holders, func(a, b engine.Holder) int { return cmp.Compare(a.Token, b.Token) })
	s.Token = reachedBy(e.majority-unseen, all, func(s nodeSnapshot) uint64 { return s.Token })
	for _, one := range all {
		if by := one.MarkedBy; by.ID != "" && s.MarkedBy.Token <= leaseOf(by).Token {
			s.MarkedBy = asLease(by)
		}
	}
	s.Marked = reachedBy(barrier(len(e.nodes))-unseen, all, func(s nodeSnapshot) time.Duration { return s.Marked })
	if s.Marked == 0 { // too few nodes have the mark
		s.MarkedBy = engine.Holder{}
	}
	return s
}

// reachedBy returns the k-th largest value. With k = majority − nodes without a snapshot, a
// majority has reached that value if those nodes have.
func reachedBy[T cmp.Ordered](k int, all []nodeSnapshot, value func(nodeSnapshot) T) T {
	values := make([]T, len(all))
	for i, one := range all {
		values[i] = value(one)
	}
	slices.Sort(values)
	return values[len(values)-max(1, k)]
}

// List implements engine.Engine. A resource is listed if its snapshot, made of what
// a majority of the nodes lists, shows a holder.
func (e *Engine) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	inUse := func(s engine.Snapshot) bool { return len(s.Holders)+len(s.Waiters) > 0 }
	return e.each(ctx, inUse, func(ctx context.Context, n *node) iter.Seq2[engine.Snapshot, error] {
		return n.List(ctx, prefix, pattern)
	})
}

// ListMarks implements engine.MarkLister, if its nodes do. A resource is listed if a
// majority of the nodes lists its mark.
func (e *Engine) ListMarks(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	marked := func(s engine.Snapshot) bool { return s.Marked > 0 }
	return e.each(ctx, marked, func(ctx context.Context, n *node) iter.Seq2[engine.Snapshot, error] {
		if l, ok := n.Engine.(engine.MarkLister); ok {
			return l.ListMarks(ctx, prefix, pattern)
		}
		return func(yield func(engine.Snapshot, error) bool) {
			yield(engine.Snapshot{}, errors.New("quorum: the engine of a node cannot list marks"))
		}
	})
}

// each yields the merged snapshots of what the nodes list, if they are wanted.
func (e *Engine) each(ctx context.Context, wanted func(engine.Snapshot) bool, list func(context.Context, *node) iter.Seq2[engine.Snapshot, error]) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		if err := e.ready(ctx); err != nil {
			yield(engine.Snapshot{}, err)
			return
		}
		lists, err := collect(ctx, e, "", "listed", func(ctx context.Context, n *node) (all []engine.Snapshot, err error) {
			for s, err := range list(ctx, n) {
				if err != nil {
					return nil, err
				}
				all = append(all, s)
			}
			return all, nil
		})
		if err != nil {
			yield(engine.Snapshot{}, err)
			return
		}
		byName := make(map[engine.Resource][]nodeSnapshot)
		for i, listed := range lists {
			for _, s := range listed {
				if byName[s.Resource] == nil {
					byName[s.Resource] = make([]nodeSnapshot, len(lists)) // a node that does not list it shows no holder
				}
				byName[s.Resource][i].Snapshot = s
			}
		}
		for name, all := range byName {
			if err := e.ready(ctx); err != nil {
				yield(engine.Snapshot{}, err)
				return
			}
			if s := e.merge(name, all); wanted(s) && !yield(s, nil) {
				return
			}
		}
	}
}
