package quorum

import (
	"context"
	"iter"
	"slices"
	"sort"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// sight is what one node shows of a resource.
type sight struct {
	node *node
	snap engine.Snapshot
	more bool // there may be holders that it does not show
}

// survey looks at a resource on a majority of the nodes.
func (e *Engine) survey(ctx context.Context, client string, look func(context.Context, *node) (sight, error)) ([]sight, error) {
	return collect(ctx, e, client, "showed the resource", look)
}

// collect returns what a majority of the nodes answers at least, and what others do if
// they are quick.
func collect[T any](ctx context.Context, e *Engine, client, what string, ask func(context.Context, *node) (T, error)) ([]T, error) {
	p := begin(e, ctx, client, e.pick(e.majority), ask)
	var all []T
	for {
		r, ok := p.next()
		if !ok {
			break
		}
		if r.err == nil {
			all = append(all, r.value)
		}
		if len(all) >= e.majority {
			p.hurry()
		}
	}
	if len(all) < e.majority {
		return nil, p.shortfall(what, len(all))
	}
	return all, nil
}

// whole takes the snapshot of a node.
func whole(res engine.Resource) func(context.Context, *node) (sight, error) {
	return func(ctx context.Context, n *node) (sight, error) {
		s, err := n.Snapshot(ctx, res)
		return sight{node: n, snap: s}, err
	}
}

// Snapshot implements engine.Engine. A holder is shown if a majority can have
// granted it: nodes that do not answer may have.
func (e *Engine) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	if err := e.usable(ctx); err != nil {
		return engine.Snapshot{}, err
	}
	all, err := e.survey(ctx, "", whole(res))
	if err != nil {
		return engine.Snapshot{}, err
	}
	return e.merge(res, all), nil
}

// merge makes one picture of what nodes show.
func (e *Engine) merge(res engine.Resource, all []sight) engine.Snapshot {
	unseen := len(e.nodes) - len(all)
	s := engine.Snapshot{Resource: res}
	type seen struct {
		holder  engine.Holder
		ttls    []time.Duration
		weights []int // a node may not have heard of the latest
	}
	holders := map[engine.Held]*seen{}
	kinds := map[[2]any]int{}
	for _, one := range all {
		if one.snap.Kind != "" {
			kind := [2]any{one.snap.Kind, one.snap.Capacity}
			kinds[kind]++
			if s.Kind == "" || kinds[kind] > kinds[[2]any{s.Kind, s.Capacity}] {
				s.Kind, s.Capacity = one.snap.Kind, one.snap.Capacity
			}
		}
		for _, h := range one.snap.Holders {
			k := asHeld(h)
			h.ID, h.Token = k.ID, k.Token
			if holders[k] == nil {
				holders[k] = &seen{holder: h}
			}
			holders[k].ttls = append(holders[k].ttls, h.TTL)
			holders[k].holder.Breaking = holders[k].holder.Breaking || h.Breaking
			holders[k].weights = append(holders[k].weights, h.Weight)
			if h.Since.Before(holders[k].holder.Since) {
				holders[k].holder.Since = h.Since // the others were told later
			}
		}
	}
	need := e.needed(s.Kind, s.Capacity)
	for _, h := range holders {
		if len(h.ttls)+unseen < need {
			continue
		}
		slices.Sort(h.ttls)
		slices.Sort(h.weights)
		h.holder.Weight = h.weights[(len(h.weights)-1)/2]
		h.holder.TTL = h.ttls[max(0, len(h.ttls)-max(1, need-unseen))]
		s.Holders = append(s.Holders, h.holder)
	}
	sort.Slice(s.Holders, func(i, j int) bool { return s.Holders[i].Token < s.Holders[j].Token })
	s.Token = amongMost(e.majority-unseen, all, func(s engine.Snapshot) uint64 { return s.Token })
	s.Marked = amongMost(e.majority-unseen, all, func(s engine.Snapshot) time.Duration { return s.Marked })
	return s
}

// amongMost is the k-th largest of what nodes show: what a majority has reached, if
// those that are not seen have.
func amongMost[T uint64 | time.Duration](k int, all []sight, of func(engine.Snapshot) T) T {
	values := make([]T, len(all))
	for i, one := range all {
		values[i] = of(one.snap)
	}
	slices.Sort(values)
	return values[len(values)-max(1, k)]
}

// List implements engine.Engine. A resource is listed if its snapshot, made of what
// a majority of the nodes lists, shows somebody.
func (e *Engine) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		if err := e.usable(ctx); err != nil {
			yield(engine.Snapshot{}, err)
			return
		}
		found, err := e.gather(ctx, prefix, pattern)
		if err != nil {
			yield(engine.Snapshot{}, err)
			return
		}
		for _, s := range found {
			if err := e.usable(ctx); err != nil {
				yield(engine.Snapshot{}, err)
				return
			}
			if len(s.Holders)+len(s.Waiters) > 0 && !yield(s, nil) {
				return
			}
		}
	}
}

// gather merges the lists of the nodes.
func (e *Engine) gather(ctx context.Context, prefix, pattern string) ([]engine.Snapshot, error) {
	lists, err := collect(ctx, e, "", "listed", func(ctx context.Context, n *node) (map[engine.Resource]engine.Snapshot, error) {
		all := make(map[engine.Resource]engine.Snapshot)
		for s, err := range n.List(ctx, prefix, pattern) {
			if err != nil {
				return nil, err
			}
			all[s.Resource] = s
		}
		return all, nil
	})
	if err != nil {
		return nil, err
	}
	names := make(map[engine.Resource]bool)
	for _, l := range lists {
		for name := range l {
			names[name] = true
		}
	}
	var out []engine.Snapshot
	for name := range names {
		all := make([]sight, len(lists))
		for i, l := range lists {
			all[i].snap = l[name] // a node that does not list it shows nobody
		}
		out = append(out, e.merge(name, all))
	}
	return out, nil
}
