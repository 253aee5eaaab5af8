package quorum

import (
	"context"
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// Peek implements engine.Engine.
func (e *Engine) Peek(ctx context.Context, res engine.Resource) (engine.Brief, error) {
	if err := e.usable(ctx); err != nil {
		return engine.Brief{}, err
	}
	all, err := e.survey(ctx, "", inBrief(res))
	if err != nil {
		return engine.Brief{}, err
	}
	s := e.merge(res, all)
	hidden := len(e.nodes) - len(all) // nodes on which there may be others
	for _, one := range all {
		if one.more {
			hidden++
		}
	}
	sure, clear := e.settled(s, all)
	more := !clear || hidden >= e.needed(s.Kind, s.Capacity)
	if len(sure) == 0 && more && s.Kind == engine.KindCond {
		// The nodes' oldest differ, as after restarts: only the whole tells.
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

// inBrief peeks at a node.
func inBrief(res engine.Resource) func(context.Context, *node) (sight, error) {
	return func(ctx context.Context, n *node) (sight, error) {
		b, err := n.Peek(ctx, res)
		s := engine.Snapshot{Resource: res, Kind: b.Kind, Capacity: b.Capacity, Token: b.Token, Marked: b.Marked, Holders: b.Holders}
		return sight{n, s, b.More}, err
	}
}

// settled returns the holders of a merged brief up to the first of whom it is not
// clear whether a majority has it, since a node may have it behind those that it
// shows. A lease that was made anew may stand behind younger ones: it is passed over
// until they are gone.
// It also tells whether it is clear of all that are shown.
func (e *Engine) settled(s engine.Snapshot, all []sight) (sure []engine.Holder, clear bool) {
	isSure := make(map[engine.Held]bool)
	for _, h := range s.Holders {
		isSure[engine.Held{ID: h.ID, Token: h.Token}] = true
	}
	open := uint64(math.MaxUint64) // the lowest token of whom it is not clear
	for h, on := range shownOn(all) {
		if isSure[h] || h.Token > open {
			continue
		}
		could := len(e.nodes) - len(all)
		for i, one := range all {
			if on[i] || one.more && h.Token > newest(one) {
				could++
			}
		}
		if could >= e.needed(s.Kind, s.Capacity) {
			open = h.Token
		}
	}
	n := slices.IndexFunc(s.Holders, func(h engine.Holder) bool { return h.Token > open })
	if n < 0 {
		n = len(s.Holders)
	}
	return s.Holders[:n], open == math.MaxUint64
}

// newest is the token of the last holder that a node shows.
func newest(one sight) uint64 {
	if n := len(one.snap.Holders); n > 0 {
		return asHeld(one.snap.Holders[n-1]).Token
	}
	return 0
}

// shownOn tells which of the nodes show a holder.
func shownOn(all []sight) map[engine.Held]map[int]bool {
	on := make(map[engine.Held]map[int]bool)
	for i, one := range all {
		for _, h := range one.snap.Holders {
			k := asHeld(h)
			if on[k] == nil {
				on[k] = make(map[int]bool)
			}
			on[k][i] = true
		}
	}
	return on
}

// asHeld is the lease that a holder on a node is part of.
func asHeld(h engine.Holder) engine.Held {
	if id, token := parseTry(h.ID); token != 0 {
		return engine.Held{ID: id, Token: token}
	}
	return engine.Held{ID: h.ID, Token: h.Token}
}
