package engine

import "context"

// A BatchReleaser is an Engine that can release many leases in few calls. A
// client uses it when it releases many at the same time: when it closes, and
// after the store was unavailable.
type BatchReleaser interface {
	Engine

	// ReleaseBatch calls Release for each element of a batch. It returns one
	// error for each, in order.
	ReleaseBatch(ctx context.Context, batch []Release) []error
}
