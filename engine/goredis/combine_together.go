package goredis

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// fewTogether is up to how many calls a call for many does not pay.
const fewTogether = 3

// union runs batches on one server with a call for many of them each, which costs
// the server much less than as many calls.
type union struct {
	scripts *script.Set
	apart   atomic.Bool // the server does not run calls for many
}

// gathering is the memory of one batch after the other.
type gathering struct {
	pipe    pipeline
	parts   []script.Call // that are sent
	joined  []script.Call // of the batch, those that go into calls for many
	at      []int         // where these are in the batch
	alone   []int         // where the others are
	replies []reply
}

// run returns one reply for each call, in order. They are good until clear.
func (g *gathering) run(ctx context.Context, rdb redis.UniversalClient, u *union, all []script.Call) []reply {
	if u == nil || u.apart.Load() || len(all) <= fewTogether {
		return g.pipe.run(ctx, rdb, all)
	}
	for i, c := range all {
		if u.scripts.Joins(c) {
			g.joined, g.at = append(g.joined, c), append(g.at, i)
		} else {
			g.alone = append(g.alone, i)
		}
		g.replies = append(g.replies, reply{})
	}
	for rest := g.joined; len(rest) > 0; {
		n := min(len(rest), script.MostTogether)
		g.parts = append(g.parts, u.scripts.Together(rest[:n]))
		rest = rest[n:]
	}
	for _, i := range g.alone {
		g.parts = append(g.parts, all[i])
	}
	answers := g.pipe.run(ctx, rdb, g.parts)
	together := len(g.parts) - len(g.alone)
	for n, i := range g.alone {
		g.replies[i] = answers[together+n]
	}
	g.alone = g.alone[:0]
	for p, r := range answers[:together] {
		g.take(u, r, g.at[p*script.MostTogether:min((p+1)*script.MostTogether, len(g.at))])
	}
	if len(g.alone) > 0 {
		g.again(ctx, rdb, all)
	}
	return g.replies
}

// take hands out the reply to a call for many. Those that it leaves are made by
// themselves: each then has its own error.
func (g *gathering) take(u *union, r reply, at []int) {
	if r.err != nil && !isAnswer(r.err) {
		for _, i := range at {
			g.replies[i].err = r.err
		}
		return
	}
	values, ok := script.ReadTogether(r.value, len(at))
	if r.err != nil || !ok {
		// Such as a node of a cluster, or a proxy before one.
		if isCode(r.err, "CROSSSLOT") || r.err == nil {
			u.apart.Store(true)
		}
		g.alone = append(g.alone, at...)
		return
	}
	for n, i := range at {
		if values[n] == nil {
			g.alone = append(g.alone, i)
		} else {
			g.replies[i].value = values[n]
		}
	}
}

// again makes the calls that are left by themselves.
func (g *gathering) again(ctx context.Context, rdb redis.UniversalClient, all []script.Call) {
	left := make([]script.Call, len(g.alone))
	for n, i := range g.alone {
		left[n] = all[i]
	}
	for n, r := range batch(ctx, rdb, left) {
		g.replies[g.alone[n]] = r
	}
}

// clear makes the memory ready for the next batch.
func (g *gathering) clear() {
	g.pipe.clear()
	clear(g.parts)
	clear(g.joined)
	clear(g.replies)
	g.parts, g.joined, g.replies = g.parts[:0], g.joined[:0], g.replies[:0]
	g.at, g.alone = g.at[:0], g.alone[:0]
}
