package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// WithFragments replaces fragments of the scripts, by name.
func WithFragments(f map[string]string) Option {
	return func(o *options) { o.fragments = f }
}

// Reaches replaces what the engine knows of who listens.
func (e *Engine) Reaches(by func(prefix, id string) bool) { e.reaches = by }

// Classify says of an error of go-redis whether a retry may help.
var Classify = classify

// Batch makes calls in one pipeline and returns their errors.
func Batch(ctx context.Context, rdb redis.UniversalClient, all []script.Call) []error {
	errs := make([]error, len(all))
	for i, r := range batch(ctx, rdb, all) {
		errs[i] = r.err
	}
	return errs
}

// Own returns the client of the own connections.
func (e *Engine) Own() redis.UniversalClient { return e.own.client() }

// QueueClear has the rest of a resource cleared.
func (e *Engine) QueueClear(r engine.Resource) error {
	keys, err := e.usable(r)
	if err == nil {
		e.queueClear(keys)
	}
	return err
}

// Settle waits until nothing is left to tidy up, and returns how many calls that has
// taken since the engine was made.
func (e *Engine) Settle() int {
	e.clearer.mu.Lock()
	done := e.clearer.done
	e.clearer.mu.Unlock()
	if done != nil {
		<-done
	}
	e.clearer.mu.Lock()
	defer e.clearer.mu.Unlock()
	return e.clearer.runs
}

// EndPoolWaits ends the waits for a connection of the caller's pool, as if the pool were exhausted. It is for one Redis.
func (e *Engine) EndPoolWaits() {
	w := e.batchers.single.pool
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel()
}
