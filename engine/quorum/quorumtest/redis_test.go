package quorumtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// limit is how long a test waits for an event.
const limit = 20 * time.Second

// redisNodes is a quorum of real servers, checked for leftovers when the test ends.
type redisNodes struct {
	t       *testing.T
	servers []*redistest.Server
	addrs   []string // what clients dial: the servers or proxies before them
	stalls  *redistest.Stalls
}

func startRedisNodes(t *testing.T, n int, opts ...redistest.Option) *redisNodes {
	t.Helper()
	g := &redisNodes{t: t, stalls: redistest.WatchStalls(t)}
	for range n {
		s := redistest.Start(t, opts...)
		g.servers = append(g.servers, s)
		g.addrs = append(g.addrs, s.Addr())
	}
	t.Cleanup(g.checkClean)
	return g
}

func (g *redisNodes) checkClean() {
	if g.t.Failed() {
		return
	}
	for i, s := range g.servers {
		s.RequireTTLs(g.t)
		g.eventually(fmt.Sprintf("node %d has nothing left", i+1), func() bool { return g.inUse(s) == 0 })
	}
}

// inUse counts the resources on one node.
func (g *redisNodes) inUse(s *redistest.Server) int {
	n := 0
	for _, err := range goredis.New(s.Client()).List(context.Background(), holdfast.DefaultPrefix, "*") {
		if err != nil {
			g.t.Fatal(err)
		}
		n++
	}
	return n
}

// client is a process: a client with connections and a quorum of its own.
func (g *redisNodes) client(opts ...holdfast.Option) *holdfast.Client {
	g.t.Helper()
	var nodes []engine.Engine
	var pools []*redis.Client
	for _, addr := range g.addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		pools = append(pools, rdb)
		nodes = append(nodes, goredis.New(rdb))
	}
	c, err := holdfast.New(quorum.New(nodes...), opts...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = c.Close() // a test that needs its result closes the client itself
		for _, rdb := range pools {
			_ = rdb.Close()
		}
	})
	return c
}

// through puts a proxy before each server for all clients made from now on.
func (g *redisNodes) through() []*redistest.Proxy {
	var all []*redistest.Proxy
	for i, s := range g.servers {
		p := redistest.NewProxy(g.t, s.Addr())
		g.addrs[i] = p.Addr()
		all = append(all, p)
	}
	return all
}

func (g *redisNodes) eventually(what string, cond func() bool) {
	g.t.Helper()
	redistest.Await(g.t, limit, what, cond)
}

func (g *redisNodes) lock(m *holdfast.Mutex) *holdfast.Lease {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	l, err := m.Lock(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	return l
}

func (g *redisNodes) release(l *holdfast.Lease) {
	g.t.Helper()
	if err := l.Release(context.Background()); err != nil {
		g.t.Fatal(err)
	}
}

// pairs locks and unlocks repeatedly, and checks that no pair takes as long as the timeout of a
// node, which is two seconds.
func (g *redisNodes) pairs(m *holdfast.Mutex, n int) {
	g.t.Helper()
	for range n {
		start := time.Now()
		g.release(g.lock(m))
		g.stalls.Within(g.t, start, 500*time.Millisecond, "a pair")
	}
}

// No call waits for a stopped or killed minority, nor for its return. The cost is a bar of the
// benchmark.
func TestMinorityOfRedisFails(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		for _, what := range []string{"stopped", "killed"} {
			t.Run(fmt.Sprint(n, what), func(t *testing.T) {
				t.Parallel()
				g := startRedisNodes(t, n, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
				c := g.client()
				m := c.Mutex("stock")
				held := g.lock(c.Mutex("held", holdfast.WithTTL(9*time.Second))) // longer than a stall of the disk
				g.pairs(m, 60)
				for _, s := range g.servers[:n/2] {
					if what == "stopped" {
						s.Pause()
					} else {
						s.Kill()
					}
				}
				g.pairs(m, 200)
				before := held.Deadline()
				g.eventually("the lease is renewed", func() bool { return held.Deadline().After(before) })
				for _, s := range g.servers[:n/2] {
					if what == "stopped" {
						s.Resume()
					} else {
						s.Restart()
					}
				}
				g.pairs(m, 60)
				if err := held.Err(); err != nil {
					t.Error(err)
				}
				g.release(held)
			})
		}
	}
}

// A majority fails: callers get an error in time, and a waiter is granted when it is back.
func TestMajorityOfRedisFails(t *testing.T) {
	t.Parallel()
	g := startRedisNodes(t, 3)
	c := g.client()
	m := c.Mutex("stock")
	g.pairs(m, 20)
	g.servers[0].Pause()
	g.servers[2].Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := m.Lock(ctx)
	if !errors.Is(err, holdfast.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "of 3 nodes") {
		t.Errorf("got %v, want ErrUnavailable, how many answered, and the ctx's end", err)
	}
	g.stalls.Within(t, start, time.Second, "Lock")
	waited := make(chan error, 1)
	go func() {
		l, err := m.Lock(context.WithoutCancel(ctx))
		if err == nil {
			err = l.Release(context.WithoutCancel(ctx))
		}
		waited <- err
	}()
	g.servers[0].Resume()
	select {
	case err := <-waited:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(limit):
		t.Errorf("the waiter did not recover")
	}
	g.servers[2].Restart()
}

// A holder that is cut off from the nodes is notified of the loss before another is granted.
func TestNotifiedBeforeAnotherEnters(t *testing.T) {
	t.Parallel()
	g := startRedisNodes(t, 3)
	other := g.client()
	proxies := g.through()
	cut := g.client()
	for range 3 {
		l := g.lock(cut.Mutex("stock", holdfast.WithTTL(500*time.Millisecond)))
		for _, p := range proxies[:2] { // one node still answers
			p.Blackhole()
		}
		next := g.lock(other.Mutex("stock", holdfast.WithTTL(500*time.Millisecond)))
		if l.Err() == nil {
			t.Error("another was granted before the holder was notified")
		}
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		for _, p := range proxies {
			p.Heal()
		}
		_ = l.Release(context.Background())
		g.release(next)
	}
}

// Another process, without the attempts of the first, adopts a lease that was detached.
func TestAdopt(t *testing.T) {
	t.Parallel()
	g := startRedisNodes(t, 3)
	a, b := g.client(), g.client()
	l := g.lock(a.Mutex("stock"))
	ticket, err := l.Detach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := b.Adopt(t.Context(), ticket)
	if err != nil {
		t.Fatal(err)
	}
	if again.Token() != l.Token() {
		t.Errorf("token %d, want %d", again.Token(), l.Token())
	}
	g.release(again)
	g.release(g.lock(b.Mutex("stock")))
}

// Several processes lock one mutex while nodes are stopped and killed one at a time. No two hold at
// once, and their tokens grow.
func TestExclusionUnderFaults(t *testing.T) {
	t.Parallel()
	const leastFaults, leastTurns = 10, 200
	g := startRedisNodes(t, 3, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var mu sync.Mutex // guards inside, last and turns; it does not replace the lease
	var inside string
	var last uint64
	turns := 0
	worked := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return turns >= leastTurns
	}
	var all sync.WaitGroup
	for i := range 4 {
		m := g.client().Mutex("stock", holdfast.WithTTL(3*time.Second)) // longer than a stall of the machine
		all.Go(func() {
			for ctx.Err() == nil {
				l, err := m.Lock(ctx)
				if err != nil {
					continue
				}
				mu.Lock()
				if inside != "" && l.Err() == nil {
					t.Errorf("process %d entered beside %s", i, inside)
				}
				if l.Token() <= last {
					t.Errorf("token %d after %d", l.Token(), last)
				}
				inside, last = fmt.Sprint(i), l.Token()
				turns++
				mu.Unlock()
				select {
				case <-time.After(rand.N(3 * time.Millisecond)):
				case <-l.Done():
					t.Errorf("lost: %v", l.Err())
				}
				mu.Lock()
				inside = ""
				mu.Unlock()
				if err := l.Release(context.WithoutCancel(ctx)); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	for n := 0; n < leastFaults || !worked() && ctx.Err() == nil; n++ {
		s := g.servers[rand.N(3)]
		kill := rand.N(2) == 0
		if kill {
			s.Kill()
		} else {
			s.Pause()
		}
		<-time.After(rand.N(700 * time.Millisecond))
		if kill {
			s.Restart()
		} else {
			s.Resume()
		}
		<-time.After(200*time.Millisecond + rand.N(300*time.Millisecond))
	}
	stop()
	all.Wait()
	if turns < leastTurns {
		t.Errorf("only %d turns in two minutes", turns)
	}
}

// A minority hangs between the grant and the release, when the answers of some nodes are still on
// their way: no call fails, and none waits for the nodes that hang.
func TestMinorityOfRedisHangsAfterTheGrant(t *testing.T) {
	t.Parallel()
	const (
		times   = 40
		longest = 500 * time.Millisecond // a quarter of the timeout of a node
	)
	g := startRedisNodes(t, 5)
	m := g.client().Mutex("stock")
	for i := range times {
		g.pairs(m, 20)
		l := g.lock(m)
		struck := time.Now()
		a, b := g.servers[i%5], g.servers[(i+1+i%4)%5]
		a.Pause()
		b.Pause()
		g.release(l)
		g.pairs(m, 2)
		g.stalls.Within(t, struck, longest, "a release and two pairs while two of five nodes hang")
		a.Resume()
		b.Resume()
	}
}
