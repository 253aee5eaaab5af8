package quorum

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

var _ engine.HistoryKeeper = (*Engine)(nil)

// KeepsHistory reports whether all nodes keep a history; see engine.KeepsHistory.
func (e *Engine) KeepsHistory() bool {
	return !slices.ContainsFunc(e.nodes, func(n *node) bool {
		_, err := n.history()
		return err != nil
	})
}

// history returns the node as a keeper of its history, or an error if it keeps none.
func (n *node) history() (engine.HistoryKeeper, error) {
	if k, ok := engine.KeepsHistory(n.Engine); ok {
		return k, nil
	}
	return nil, fmt.Errorf("%w: quorum: the engine of a node keeps no history", engine.ErrDenied)
}

// AppendHistory implements engine.HistoryKeeper, if its nodes do. All nodes get the events; a
// majority must have them.
func (e *Engine) AppendHistory(ctx context.Context, prefix string, keep int, events [][]byte) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	_, err := collect(ctx, e, "", "recorded the events", withoutValue(func(ctx context.Context, n *node) error {
		k, err := n.history()
		if err != nil {
			return err
		}
		return k.AppendHistory(ctx, prefix, keep, events)
	}))
	return err
}

// nodeHistory is what a node has after a position.
type nodeHistory struct {
	node    int
	records []engine.HistoryRecord
}

// History implements engine.HistoryKeeper, if its nodes do. It merges what a majority of the nodes
// has, by the time on each node's clock, and so returns an event once for each node that has it.
// A position is that on each node.
func (e *Engine) History(ctx context.Context, prefix, after string, since time.Time, limit int) ([]engine.HistoryRecord, error) {
	read := func(ctx context.Context, k engine.HistoryKeeper, after string) ([]engine.HistoryRecord, error) {
		return k.History(ctx, prefix, after, since, limit)
	}
	return e.mergeHistories(ctx, after, limit, read, func(a, b time.Time) int { return a.Compare(b) })
}

// HistoryBefore implements engine.HistoryKeeper, if its nodes do, as History does.
func (e *Engine) HistoryBefore(ctx context.Context, prefix, before string, limit int) ([]engine.HistoryRecord, error) {
	read := func(ctx context.Context, k engine.HistoryKeeper, before string) ([]engine.HistoryRecord, error) {
		return k.HistoryBefore(ctx, prefix, before, limit)
	}
	return e.mergeHistories(ctx, before, limit, read, func(a, b time.Time) int { return b.Compare(a) })
}

// mergeHistories reads from a position on at a majority of the nodes, and merges what they have in an order.
func (e *Engine) mergeHistories(ctx context.Context, position string, limit int,
	read func(ctx context.Context, k engine.HistoryKeeper, at string) ([]engine.HistoryRecord, error), order func(a, b time.Time) int) ([]engine.HistoryRecord, error) {
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	at, err := e.positions(position)
	if err != nil {
		return nil, err
	}
	found, err := collect(ctx, e, "", "returned the history", func(ctx context.Context, n *node) (*nodeHistory, error) {
		k, err := n.history()
		if err != nil {
			return nil, err
		}
		records, err := read(ctx, k, at[n.index])
		return &nodeHistory{n.index, records}, err
	})
	if err != nil {
		return nil, err
	}
	return merge(found, at, limit, order), nil
}

// positions splits a position into those on the nodes.
func (e *Engine) positions(at string) ([]string, error) {
	each := make([]string, len(e.nodes))
	if at == "" {
		return each, nil
	}
	if err := json.Unmarshal([]byte(at), &each); err != nil || len(each) != len(e.nodes) {
		return nil, fmt.Errorf("%w: quorum: %q is no position in a history of %d nodes", engine.ErrDenied, at, len(e.nodes))
	}
	return each, nil
}

// merge merges what nodes have in an order. at are the positions on the nodes, of all that was before.
func merge(found []*nodeHistory, at []string, limit int, order func(a, b time.Time) int) []engine.HistoryRecord {
	var merged []engine.HistoryRecord
	for len(merged) < limit {
		found = slices.DeleteFunc(found, func(h *nodeHistory) bool { return len(h.records) == 0 })
		if len(found) == 0 {
			break
		}
		h := slices.MinFunc(found, func(a, b *nodeHistory) int { return order(a.records[0].Written, b.records[0].Written) })
		r := h.records[0]
		h.records, at[h.node] = h.records[1:], r.Position
		position, _ := json.Marshal(at) // of strings
		r.Position = string(position)
		merged = append(merged, r)
	}
	return merged
}
