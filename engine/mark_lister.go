package engine

import (
	"context"
	"iter"
)

// A MarkLister is an Engine that can list the resources that are marked as done.
type MarkLister interface {
	Engine

	// ListMarks is List for every resource that is marked, whether it has holders
	// or not. The snapshots may contain no holders and waiters.
	ListMarks(ctx context.Context, prefix, pattern string) iter.Seq2[Snapshot, error]
}
