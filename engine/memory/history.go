package memory

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

var _ engine.HistoryKeeper = (*Engine)(nil)

// history holds the events of a prefix, oldest first. The position of one is its number.
type history struct {
	first   int // the number of the oldest event
	records []engine.HistoryRecord
}

// AppendHistory implements engine.HistoryKeeper.
func (e *Engine) AppendHistory(ctx context.Context, prefix string, keep int, events [][]byte) error {
	if err := ended(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.histories[prefix]
	if h == nil {
		h = new(history)
		e.histories[prefix] = h
	}
	now := time.UnixMicro(clock())
	for _, event := range events {
		position := strconv.Itoa(h.first + len(h.records))
		h.records = append(h.records, engine.HistoryRecord{Position: position, Written: now, Event: slices.Clone(event)})
	}
	if extra := len(h.records) - keep; extra > 0 {
		h.records, h.first = slices.Delete(h.records, 0, extra), h.first+extra
	}
	return nil
}

// History implements engine.HistoryKeeper.
func (e *Engine) History(ctx context.Context, prefix, after string, since time.Time, limit int) ([]engine.HistoryRecord, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	next := 0
	if n, err := strconv.Atoi(after); err == nil {
		next = n + 1
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.histories[prefix]
	if h == nil {
		return nil, nil
	}
	var found []engine.HistoryRecord
	for _, r := range h.records[min(max(0, next-h.first), len(h.records)):] {
		if !r.Written.Before(since) && len(found) < limit {
			found = append(found, r)
		}
	}
	return found, nil
}

// HistoryBefore implements engine.HistoryKeeper.
func (e *Engine) HistoryBefore(ctx context.Context, prefix, before string, limit int) ([]engine.HistoryRecord, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.histories[prefix]
	if h == nil {
		return nil, nil
	}
	end := len(h.records)
	if n, err := strconv.Atoi(before); err == nil {
		end = min(max(0, n-h.first), end)
	}
	found := slices.Clone(h.records[max(0, end-limit):end])
	slices.Reverse(found)
	return found, nil
}
