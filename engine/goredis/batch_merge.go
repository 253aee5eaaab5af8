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
	replies := make([]reply, len(all))
	for len(merged)+len(single) > 0 {
		chunks := slices.Collect(slices.Chunk(merged, script.MaxBatch))
		parts := make([]script.Call, 0, len(chunks)+len(single))
		for _, at := range chunks {
			parts = append(parts, u.scripts.Batch(pick(all, at)))
		}
		answers := batch(ctx, rdb, append(parts, pick(all, single)...))
		for n, i := range single {
			replies[i] = answers[len(chunks)+n]
		}
		merged, single = nil, nil
		for n, at := range chunks {
			alone, left := u.distribute(answers[n], at, replies)
			single, merged = append(single, alone...), append(merged, left...)
		}
	}
	return replies
}

// distribute stores the reply of a merged call in the replies of its calls, which are at some
// indexes. It returns the indexes of calls to make alone, so that each has its own error, and of those
// that the server has not reached.
func (u *merger) distribute(r reply, at []int, replies []reply) (alone, left []int) {
	if r.err != nil && !isAnswer(r.err) {
		for _, i := range at {
			replies[i].err = r.err
		}
		return nil, nil
	}
	values, ok := script.ReadBatch(r.value, len(at))
	if r.err != nil || !ok {
		// For example a node of a cluster, or a proxy in front of one.
		if isCode(r.err, "CROSSSLOT") || r.err == nil {
			u.unsupported.Store(true)
		}
		return at, nil
	}
	for n, value := range values {
		if value == nil {
			alone = append(alone, at[n])
		} else {
			replies[at[n]].value = value
		}
	}
	return alone, at[len(values):]
}
