package engine

import (
	"context"
	"time"
)

// A HistoryKeeper is an Engine that can keep a history of events in its store.
type HistoryKeeper interface {
	Engine

	// AppendHistory appends events to the history of a prefix, in order, and then removes the
	// oldest ones if there are more than keep; it may keep some 200 more, or a hundredth. If no event is
	// appended for 7 days, the store may delete the whole history, and it may delete an event after 30
	// days. An event is any text of at most 8 KiB.
	// After ErrUnavailable some or all of the events may have been appended.
	AppendHistory(ctx context.Context, prefix string, keep int, events [][]byte) error

	// History returns up to limit events of a prefix, oldest first: those after a position that
	// were written at since or later, on the store's clock. after is "" or the Position of a record.
	History(ctx context.Context, prefix, after string, since time.Time, limit int) ([]HistoryRecord, error)

	// HistoryBefore returns up to limit events of a prefix, newest first: those before a position.
	// before is "", for the newest, or the Position of a record that HistoryBefore has returned.
	HistoryBefore(ctx context.Context, prefix, before string, limit int) ([]HistoryRecord, error)
}

// KeepsHistory returns e as a HistoryKeeper. An engine over others, some of which keep no history, has a
// method KeepsHistory() bool that returns false.
func KeepsHistory(e Engine) (HistoryKeeper, bool) {
	keeper, ok := e.(HistoryKeeper)
	if over, wraps := e.(interface{ KeepsHistory() bool }); wraps {
		ok = ok && over.KeepsHistory()
	}
	return keeper, ok
}

// A HistoryRecord is an event in the history.
type HistoryRecord struct {
	Position string
	Written  time.Time // on the store's clock, or as Engine.Now
	Event    []byte
}
