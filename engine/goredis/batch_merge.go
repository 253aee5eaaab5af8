package goredis

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// minMerged is the number of calls up to which merging them costs more than it saves.
const minMerged = 3

// merger merges the calls of a batch into calls of one script for many resources, which
// cost the server much less than as many calls.
type merger struct {
	scripts     *script.Set
	unsupported atomic.Bool // the server does not run merged calls
}

// batchBuffers are buffers for one batch after the other.
type batchBuffers struct {
	pipe     pipeline
	parts    []script.Call // that are sent
	merged   []script.Call // of the batch, those that go into calls for many
	mergedAt []int         // where these are in the batch
	singleAt []int         // where the others are
	replies  []reply
}

// run returns one reply for each call, in order. They are good until clear.
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

// take hands out the reply to a call for many. Those that it leaves are made by
// themselves: each then has its own error.
func (g *batchBuffers) take(u *merger, r reply, at []int) {
	if r.err != nil && !isAnswer(r.err) {
		for _, i := range at {
			g.replies[i].err = r.err
		}
		return
	}
	values, ok := script.ReadBatch(r.value, len(at))
	if r.err != nil || !ok {
		// Such as a node of a cluster, or a proxy before one.
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

// again makes the calls that are left by themselves.
func (g *batchBuffers) again(ctx context.Context, rdb redis.UniversalClient, all []script.Call) {
	left := make([]script.Call, len(g.singleAt))
	for n, i := range g.singleAt {
		left[n] = all[i]
	}
	for n, r := range batch(ctx, rdb, left) {
		g.replies[g.singleAt[n]] = r
	}
}

// clear makes the memory ready for the next batch.
func (g *batchBuffers) clear() {
	g.pipe.clear()
	clear(g.parts)
	clear(g.merged)
	clear(g.replies)
	g.parts, g.merged, g.replies = g.parts[:0], g.merged[:0], g.replies[:0]
	g.mergedAt, g.singleAt = g.mergedAt[:0], g.singleAt[:0]
}
