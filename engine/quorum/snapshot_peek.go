package quorum

import (
	"context"
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// Peek implements engine.Engine.
func (e *Engine) Peek(ctx context.Context, res engine.Resource) (engine.Brief, error) {
	if err := e.ready(ctx); err != nil {
		return engine.Brief{}, err
	}
	all, err := e.peekAll(ctx, res)
	if err != nil {
		return engine.Brief{}, err
	}
	s := e.merge(res, all)
	hidden := len(e.nodes) - len(all) // number of nodes that may have other holders
	for _, one := range all {
		if one.more {
			hidden++
		}
	}
	sure, clear := e.sureHolders(s, all)
	more := !clear || hidden >= e.votesNeeded(s.Kind, s.Capacity)
	if len(sure) == 0 && more && s.Kind == engine.KindCond {
		// The oldest holders of the nodes differ, for example after restarts. Only snapshots
		// show all holders.
		if s, err = e.Snapshot(ctx, res); err != nil {
			return engine.Brief{}, err
		}
		sure = s.Holders
	}
	shown := sure[:min(len(sure), engine.MaxPeeked)]
	return engine.Brief{
		Resource: res, Kind: s.Kind, Capacity: s.Capacity, Token: s.Token, Marked: s.Marked,
		Holders: shown, More: more || len(shown) < len(s.Holders),
	}, nil
}

// peekAll returns the briefs of at least a majority of the nodes, as snapshots.
func (e *Engine) peekAll(ctx context.Context, res engine.Resource) ([]nodeSnapshot, error) {
	return collect(ctx, e, "", "showed the resource", func(ctx context.Context, n *node) (nodeSnapshot, error) {
		b, err := n.Peek(ctx, res)
		s := engine.Snapshot{Resource: res, Kind: b.Kind, Capacity: b.Capacity, Token: b.Token, Marked: b.Marked, Holders: b.Holders}
		return nodeSnapshot{s, n, b.More}, err
	})
}

// sureHolders returns the holders of merged briefs up to the first lease that may have a majority
// without being among them, since a brief shows the oldest holders only. It also reports whether
// there is no such lease. A lease that was restored on a node may be behind younger ones there,
// and is left out until they have ended.
func (e *Engine) sureHolders(s engine.Snapshot, all []nodeSnapshot) (sure []engine.Holder, clear bool) {
	isSure := make(map[engine.Held]bool)
	for _, h := range s.Holders {
		isSure[engine.Held{ID: h.ID, Token: h.Token}] = true
	}
	unsure := uint64(math.MaxUint64) // the lowest token of a lease that may have a majority
	for k, lease := range observe(all) {
		if isSure[k] || k.Token > unsure {
			continue
		}
		could := len(e.nodes) - len(all)
		for i, one := range all {
			if lease.shows[i] || one.more && k.Token > one.newestToken() {
				could++
			}
		}
		if could >= e.votesNeeded(s.Kind, s.Capacity) {
			unsure = k.Token
		}
	}
	n := slices.IndexFunc(s.Holders, func(h engine.Holder) bool { return h.Token > unsure })
	if n < 0 {
		n = len(s.Holders)
	}
	return s.Holders[:n], unsure == math.MaxUint64
}

// newestToken returns the token of the last holder that a node shows, or 0.
func (s nodeSnapshot) newestToken() uint64 {
	if n := len(s.Holders); n > 0 {
		return leaseOf(s.Holders[n-1]).Token
	}
	return 0
}
