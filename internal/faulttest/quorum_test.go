package faulttest

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A fixture on a quorum has independent servers. Where a test says "the server" all of
// them have the fault, unless a comment says otherwise: a fault of a minority must have
// no effect, and TestMinorityUnderFaults shows that.

// sizeOfQuorum is how many servers a fixture has: 1 if it is not a quorum.
func sizeOfQuorum() int {
	switch os.Getenv(topologyEnv) {
	case "quorum3", "memory3":
		return 3
	case "quorum5", "memory5":
		return 5
	}
	return 1
}

// inMemory reports whether the nodes are memory engines: then there are no servers.
func inMemory() bool { return slices.Contains([]string{"memory3", "memory5"}, os.Getenv(topologyEnv)) }

// memories adds nodes without servers.
func (w *fixture) memories() {
	for range sizeOfQuorum() {
		w.stores = append(w.stores, memory.New())
	}
}

// minority is as many nodes as a quorum can do without: none of a single server.
func (w *fixture) minority() []*redistest.Server { return w.nodes[:len(w.nodes)/2] }

// each does something to all nodes, one after the other.
func (w *fixture) each(f func(*redistest.Server)) {
	for _, s := range w.nodes {
		f(s)
	}
}

// on runs commands on each of some nodes.
func (w *fixture) on(nodes []*redistest.Server, f func(rdb *redis.Client) error) {
	w.t.Helper()
	for i, s := range nodes {
		if err := f(s.Client()); err != nil {
			w.t.Fatalf("node %d: %v", i+1, err)
		}
	}
}

// throughAll puts a proxy before each node for all clients made from now on.
func (w *fixture) throughAll() proxies {
	var all proxies
	for i, s := range w.nodes {
		p := redistest.NewProxy(w.t, s.Addr())
		w.addrs[i] = p.Addr()
		all = append(all, p)
	}
	return all
}

// proxies stand before the nodes.
type proxies []*redistest.Proxy

// loseReplies loses the next matching reply of each node, and returns what fails
// the test if that did not happen everywhere.
func (all proxies) loseReplies(match string) (requireHit func(testing.TB)) {
	var points []*redistest.Point
	for _, p := range all {
		points = append(points, p.LoseReply(match))
	}
	return func(t testing.TB) {
		t.Helper()
		for _, p := range points {
			p.RequireHit(t)
		}
	}
}

func (all proxies) blackhole() {
	for _, p := range all {
		p.Blackhole()
	}
}

func (all proxies) cut() {
	for _, p := range all {
		p.Cut()
	}
}

func (all proxies) heal() {
	for _, p := range all {
		p.Heal()
	}
}

// engineOn is an engine over connections: of several it makes a quorum.
func engineOn(pools []redis.UniversalClient) engine.Engine {
	var nodes []engine.Engine
	for _, rdb := range pools {
		nodes = append(nodes, goredis.New(rdb))
	}
	if len(nodes) == 1 {
		return nodes[0]
	}
	return quorum.New(nodes...)
}

// queue has the waiters of this process: on a quorum no snapshot shows it.
type queue struct {
	mu  sync.Mutex
	all map[string]map[string]bool // holder IDs by name
}

func (q *queue) note(name, id string, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all[name] == nil {
		q.all[name] = make(map[string]bool)
	}
	if waits {
		q.all[name][id] = true
	} else {
		delete(q.all[name], id)
	}
}

func (q *queue) length(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.all[name])
}

// queued is an engine that records the requests that must wait.
type queued struct {
	engine.Engine
	queue *queue
}

func (e queued) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	a, err := e.Engine.Acquire(ctx, r)
	e.queue.note(r.Resource.Name, r.ID, err == nil && a.Status == engine.Queued)
	return a, err
}

func (e queued) Release(ctx context.Context, r engine.Release) error {
	e.queue.note(r.Resource.Name, r.Held.ID, false)
	return e.Engine.Release(ctx, r)
}
