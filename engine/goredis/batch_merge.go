package goredis

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// minMerged is the number of calls up to which merging costs more than it saves.
const minMerged = 3

// merger merges the calls of a batch into calls of one script for many resources, which cost
// the server much less than single calls.
type merger struct {
	scripts     *script.Set
	unsupported atomic.Bool // the server does not run merged calls
}

// run makes calls and returns one reply for each, in order. A nil merger merges none.
func (u *merger) run(ctx context.Context, rdb redis.UniversalClient, all []script.Call) []reply {
	if u == nil || u.unsupported.Load() || len(all) <= minMerged {
		return batch(ctx, rdb, all)
	}
	var merged, single []int // indexes in all
	for i, c := range all {
		if u.scripts.Joins(c) {
			merged = append(merged, i)
		} else {
			single = append(single, i)
		}
	}
	chunks := slices.Collect(slices.Chunk(merged, script.MaxBatch))
	parts := make([]script.Call, 0, len(chunks)+len(single))
	for _, at := range chunks {
		parts = append(parts, u.scripts.Batch(pick(all, at)))
	}
	answers := batch(ctx, rdb, append(parts, pick(all, single)...))
	replies := make([]reply, len(all))
	for n, i := range single {
		replies[i] = answers[len(chunks)+n]
	}
	var again []int
	for n, at := range chunks {
		again = append(again, u.distribute(answers[n], at, replies)...)
	}
	if len(again) > 0 { // one by one, so that each has its own error
		for n, r := range batch(ctx, rdb, pick(all, again)) {
			replies[again[n]] = r
		}
	}
	return replies
}

// distribute stores the reply of a merged call in the replies of its calls, which are at some
// indexes. It returns the indexes of calls without a reply in it.
func (u *merger) distribute(r reply, at []int, replies []reply) (again []int) {
	if r.err != nil && !isAnswer(r.err) {
		for _, i := range at {
			replies[i].err = r.err
		}
		return nil
	}
	values, ok := script.ReadBatch(r.value, len(at))
	if r.err != nil || !ok {
		// For example a node of a cluster, or a proxy in front of one.
		if isCode(r.err, "CROSSSLOT") || r.err == nil {
			u.unsupported.Store(true)
		}
		return at
	}
	for n, i := range at {
		if values[n] == nil {
			again = append(again, i)
		} else {
			replies[i].value = values[n]
		}
	}
	return again
}
