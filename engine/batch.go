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

// A Batcher is an Engine that sends the calls of several goroutines together.
type Batcher interface {
	Engine

	// BatchDepth returns the present number of calls. Its cost does not grow
	// with it.
	BatchDepth() BatchDepth
}

// A BatchDepth is the number of calls of an engine at one moment.
type BatchDepth struct {
	Waiting int // calls that wait to be sent
	Sending int // batches, and calls that are sent alone, without an answer yet
}
