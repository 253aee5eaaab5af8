package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// noticed makes a client of a cluster reload the slots after a call without an answer.
// go-redis itself does so only after a redirection or a retry, and a dead master does not
// redirect.
func noticed(rdb redis.UniversalClient, err error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok || err == nil {
		return
	}
	if isAnswer(err) && !isCode(err, "CLUSTERDOWN") && !isCode(err, "READONLY") {
		return
	}
	cluster.ReloadState(context.Background()) // in the background, and rate-limited
}

// byNode returns the indexes of calls, grouped by the node that has their keys. A node that
// hangs must not delay the calls to the others.
func byNode(ctx context.Context, rdb redis.UniversalClient, calls []script.Call) [][]int {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok || len(calls) == 1 {
		all := make([]int, len(calls))
		for i := range all {
			all[i] = i
		}
		return [][]int{all}
	}
	var groups [][]int
	of := map[string]int{}
	for i, c := range calls {
		addr := "" // unknown: the call returns the error
		if node, err := cluster.MasterForKey(ctx, c.Key()); err == nil {
			addr = node.Options().Addr
		}
		g, known := of[addr]
		if !known {
			g = len(groups)
			of[addr], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// asideLimit bounds work that runs beside a call, and asideWait how long the call waits for
// it in the end.
const (
	asideLimit = 2 * time.Second
	asideWait  = 100 * time.Millisecond
)

// aside runs f concurrently with a call, for work that no lease depends on: in a cluster it
// may need another node, which may hang. The channel is closed when f has returned.
func (e *Engine) aside(f func(ctx context.Context)) <-chan struct{} {
	done := make(chan struct{})
	e.workers.do(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), asideLimit)
		defer cancel()
		f(ctx)
	})
	return done
}
