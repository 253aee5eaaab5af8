package goredis

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

// queued returns a batcher with calls that wait.
func queued(n int) (*batcher, []*batchedCall) {
	cb := &batcher{busy: 1, waiting: make([]*batchedCall, n)}
	for i := range cb.waiting {
		cb.waiting[i] = &batchedCall{}
	}
	return cb, slices.Clone(cb.waiting)
}

// Many calls that end at one moment are removed in a time that grows with their number, not with its square.
func TestManyCallsAreWithdrawnAtOnce(t *testing.T) {
	const n = 10_000
	cb, all := queued(n)
	rand.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	visited := 0
	for _, one := range all {
		before := len(cb.waiting)
		cb.withdraw(one)
		if len(cb.waiting) != before { // the list was searched
			visited += before
		}
	}
	if len(cb.waiting) != 0 || visited > 2*n {
		t.Errorf("%d calls are left, and %d entries were visited for %d calls", len(cb.waiting), visited, n)
	}
}

// Whatever is withdrawn, before or between batches, the other calls are sent in their order.
func TestCallsThatAreNotWithdrawnAreSent(t *testing.T) {
	for range 200 {
		cb, all := queued(rand.IntN(4 * maxBatch))
		var want, sent []*batchedCall
		keep := rand.Float64()
		withdraw := func(some []*batchedCall) {
			for _, one := range some {
				if !one.gone && rand.Float64() > keep { // a call ends once
					cb.withdraw(one)
				}
			}
		}
		withdraw(all)
		for batch := cb.next(nil); len(batch) > 0; batch = cb.next(nil) {
			sent = append(sent, batch...)
			withdraw(all) // also calls that are sent, which has no effect
		}
		for _, one := range all {
			if !one.gone {
				want = append(want, one)
			}
		}
		var depth engine.BatchDepth
		if cb.addDepth(&depth); !slices.Equal(sent, want) || depth != (engine.BatchDepth{}) || len(cb.waiting) != 0 {
			t.Fatalf("%d of %d calls were sent, want %d; %+v and %d are left", len(sent), len(all), len(want), depth, len(cb.waiting))
		}
	}
}
