package goredis

import (
	"context"
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

// batchBuffers are the buffers of a batch. They are used again for the next one.
type batchBuffers struct {
	pipe     pipeline
	parts    []script.Call // the calls that are sent
	merged   []script.Call // the calls of the batch that are merged
	mergedAt []int         // their indexes in the batch
	singleAt []int         // the indexes of the other calls
	replies  []reply
}

// run returns one reply for each call, in order. The replies are valid until clear.
func (g *batchBuffers) run(ctx context.Context, rdb redis.UniversalClient, u *merger, all []script.Call) []reply {
	if u == nil || u.unsupported.Load() || len(all) <= minMerged {
		return g.pipe.run(ctx, rdb, all)
	}
	for i, c := range all {
		if u.scripts.Joins(c) {
			g.merged, g.mergedAt = append(g.merged, c), append(g.mergedAt, i)
		} else {
			g.singleAt = append(g.singleAt, i)
		}
		g.replies = append(g.replies, reply{})
	}
	for rest := g.merged; len(rest) > 0; {
		n := min(len(rest), script.MaxBatch)
		g.parts = append(g.parts, u.scripts.Batch(rest[:n]))
		rest = rest[n:]
	}
	for _, i := range g.singleAt {
		g.parts = append(g.parts, all[i])
	}
	answers := g.pipe.run(ctx, rdb, g.parts)
	merged := len(g.parts) - len(g.singleAt)
	for n, i := range g.singleAt {
		g.replies[i] = answers[merged+n]
	}
	g.singleAt = g.singleAt[:0]
	for p, r := range answers[:merged] {
		g.take(u, r, g.mergedAt[p*script.MaxBatch:min((p+1)*script.MaxBatch, len(g.mergedAt))])
	}
	if len(g.singleAt) > 0 {
		g.again(ctx, rdb, all)
	}
	return g.replies
}

// take distributes the reply of a merged call. Calls without a reply in it are made one by
// one, so that each has its own error.
func (g *batchBuffers) take(u *merger, r reply, at []int) {
	if r.err != nil && !isAnswer(r.err) {
		for _, i := range at {
			g.replies[i].err = r.err
		}
		return
	}
	values, ok := script.ReadBatch(r.value, len(at))
	if r.err != nil || !ok {
		// For example a node of a cluster, or a proxy in front of one.
		if isCode(r.err, "CROSSSLOT") || r.err == nil {
			u.unsupported.Store(true)
		}
		g.singleAt = append(g.singleAt, at...)
		return
	}
	for n, i := range at {
		if values[n] == nil {
			g.singleAt = append(g.singleAt, i)
		} else {
			g.replies[i].value = values[n]
		}
	}
}

// again makes the calls at singleAt one by one.
func (g *batchBuffers) again(ctx context.Context, rdb redis.UniversalClient, all []script.Call) {
	left := make([]script.Call, len(g.singleAt))
	for n, i := range g.singleAt {
		left[n] = all[i]
	}
	for n, r := range batch(ctx, rdb, left) {
		g.replies[g.singleAt[n]] = r
	}
}

// clear empties the buffers for the next batch.
func (g *batchBuffers) clear() {
	g.pipe.clear()
	clear(g.parts)
	clear(g.merged)
	clear(g.replies)
	g.parts, g.merged, g.replies = g.parts[:0], g.merged[:0], g.replies[:0]
	g.mergedAt, g.singleAt = g.mergedAt[:0], g.singleAt[:0]
}
