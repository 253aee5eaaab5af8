package engine

import "context"

// BatchReleaser is an Engine that can give back many leases in few calls. A client
// uses it where it has many to give back at one moment: when it closes, and after
// the store was away.
type BatchReleaser interface {
	Engine

	// ReleaseBatch is Release for each of a batch. The result has one error for
	// each, in order.
	ReleaseBatch(ctx context.Context, batch []Release) []error
}
