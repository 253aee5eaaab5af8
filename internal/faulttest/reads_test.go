package faulttest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// crowd is a Redis on which many hold or wait, and a client that counts what it reads.
type crowd struct {
	*testing.T
	server *redistest.Server
	store  *goredis.Engine
	client *holdfast.Client
	read   atomic.Int64 // bytes that the client read
	most   atomic.Int64 // elements in the longest reply

	mu   sync.Mutex
	left map[string]map[string]time.Time // by resource and holder ID: not before then
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{T: t, server: redistest.Start(t), left: map[string]map[string]time.Time{}}
	fill := c.server.Client()
	c.store = goredis.New(fill)
	counting := redis.NewClient(&redis.Options{
		Addr: c.server.Addr(), PoolSize: 1, DisableIdentity: true,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return countingConn{conn, &c.read}, err
		},
	})
	counting.AddHook(measuring{&c.most})
	client, err := holdfast.New(goredis.New(counting))
	if err != nil {
		t.Fatal(err)
	}
	c.client = client
	t.Cleanup(func() {
		_ = client.Close()
		_ = counting.Close()
	})
	return c
}

type countingConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

// measuring keeps the length of the longest reply.
type measuring struct{ most *atomic.Int64 }

func (m measuring) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m measuring) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		m.note(cmd)
		return err
	}
}

func (m measuring) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			m.note(cmd)
		}
		return err
	}
}

func (m measuring) note(cmd redis.Cmder) {
	if c, ok := cmd.(interface{ Val() any }); ok {
		m.most.Store(max(m.most.Load(), elements(c.Val())))
	}
}

func elements(reply any) int64 {
	list, ok := reply.([]any)
	if !ok {
		return 1
	}
	var n int64
	for _, one := range list {
		n += elements(one)
	}
	return n
}

// fill adds requests for a resource until there are so many.
func (c *crowd) fill(name string, kind engine.Kind, capacity, from, to int) {
	c.Helper()
	ids := make(chan int)
	if c.left[name] == nil {
		c.left[name] = map[string]time.Time{}
	}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := range ids {
				id := fmt.Sprintf("client%d.%016d", i%50, i)
				c.mu.Lock()
				c.left[name][id] = time.Now()
				c.mu.Unlock()
				_, err := c.store.Acquire(context.Background(), engine.Request{
					Resource: engine.Resource{Prefix: holdfast.DefaultPrefix, Name: name},
					ID:       id, Kind: kind, Capacity: capacity, Weight: 1,
					TTL: time.Hour, Queue: true, Reason: "crowd",
				})
				if err != nil {
					c.Error(err)
				}
			}
		})
	}
	for i := from; i < to; i++ {
		ids <- i
	}
	close(ids)
	all.Wait()
}

// effort is what the server does, and what the client reads, for an operation.
type effort struct {
	commands map[string]string // calls of each, those by scripts included
	bytes    int64
}

// of measures an operation. The first one warms up: connections, scripts, names.
func (c *crowd) of(op func() error) effort {
	c.Helper()
	if err := op(); err != nil {
		c.Fatal(err)
	}
	rdb := c.server.Client()
	if err := rdb.ConfigResetStat(c.Context()).Err(); err != nil {
		c.Fatal(err)
	}
	read := c.read.Load()
	const times = 20
	for range times {
		if err := op(); err != nil {
			c.Fatal(err)
		}
	}
	w := effort{commands: map[string]string{}, bytes: c.read.Load() - read}
	for line := range strings.Lines(rdb.Info(c.Context(), "commandstats").Val()) {
		name, stats, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		switch command, _, _ := strings.Cut(strings.TrimPrefix(name, "cmdstat_"), "|"); command {
		case "info", "config", "hello", "client", "ping": // of connections, and of the test
		default:
			if ok {
				w.commands[command], _, _ = strings.Cut(stats, ",")
			}
		}
	}
	return w
}

// growth adds to the crowd and requires that the cost of an operation stays the same.
func (c *crowd) growth(op func() error, grow func(from, to int)) {
	c.Helper()
	few, many := 64, redistest.Scale(4000, 100_000)
	grow(0, few)
	before := c.of(op)
	grow(few, many)
	after := c.of(op)
	c.Logf("with %d: %v, %d bytes; with %d: %v, %d bytes", few, before.commands, before.bytes, many, after.commands, after.bytes)
	// A number in a reply may have a few digits more.
	if !maps.Equal(before.commands, after.commands) || after.bytes > before.bytes+before.bytes/20 {
		c.Errorf("20 calls took %v and %d bytes of replies with %d in the line, %v and %d bytes with %d",
			before.commands, before.bytes, few, after.commands, after.bytes, many)
	}
}

// candidates makes client0 the leader and the others wait.
func (c *crowd) candidates(from, to int) {
	c.fill("primary", engine.KindElection, 1, from, min(to, 1))
	c.fill("primary", engine.KindElection, 1, max(from, 1), to)
}

// Who leads costs the same, however many candidates wait.
func TestLeaderCostsTheSameWithManyCandidates(t *testing.T) {
	c := newCrowd(t)
	e := c.client.Election("primary")
	c.growth(func() error {
		l, err := e.Leader(t.Context())
		if err == nil && l.HolderID != "client0.0000000000000000" {
			err = fmt.Errorf("leader is %+v", l)
		}
		return err
	}, c.candidates)
}

// So does each look of an observer.
func TestObserveCostsTheSameWithManyCandidates(t *testing.T) {
	c := newCrowd(t)
	e := c.client.Election("primary")
	c.growth(func() error {
		next, stop := iter.Pull2(e.Observe(t.Context()))
		defer stop()
		l, err, _ := next()
		if err == nil && l.HolderID != "client0.0000000000000000" {
			err = fmt.Errorf("leader is %+v", l)
		}
		return err
	}, c.candidates)
}

// A signal costs the same, however many wait for the condition.
func TestSignalCostsTheSameWithManyWaiters(t *testing.T) {
	c := newCrowd(t)
	cond := c.client.Mutex("stock").Cond("full")
	c.growth(func() error { return cond.Signal(t.Context()) }, func(from, to int) {
		c.fill("stock#cond:full", engine.KindCond, 1<<20, from, to)
	})
}

// Whatever number waits, no script of a snapshot or a list holds the server up, and
// both show each holder and waiter once.
func TestNoReadHoldsTheServerUp(t *testing.T) {
	c := newCrowd(t)
	n := redistest.Scale(4000, 100_000)
	c.fill("table", engine.KindRW, 1<<20, 0, n)
	c.fill("stock", engine.KindMutex, 1, 0, n)
	rdb := c.server.Client()
	if err := rdb.ConfigSet(t.Context(), "slowlog-log-slower-than", "1000").Err(); err != nil {
		t.Fatal(err)
	}
	check := func(s holdfast.Snapshot) {
		t.Helper()
		living := time.Now().Add(-engine.WaiterLife) // earlier requests are dead by now; all of table hold
		seen := map[string]bool{}
		for _, h := range s.Holders {
			seen[h.ID] = true
		}
		for _, w := range s.Waiters {
			seen[w.ID] = true
		}
		missing := 0
		for id, at := range c.left[s.Resource] {
			if !seen[id] && (s.Resource == "table" || at.After(living)) {
				missing++
			}
		}
		if missing > 0 || len(s.Holders)+len(s.Waiters) != len(seen) {
			t.Errorf("%s shows %d holders and %d waiters, %d in all, and not %d more", s.Resource, len(s.Holders), len(s.Waiters), len(seen), missing)
		}
	}
	for _, name := range []string{"stock", "table"} {
		s, err := c.client.Snapshot(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		check(s)
	}
	for s, err := range c.client.List(t.Context(), "*") {
		if err != nil {
			t.Fatal(err)
		}
		check(s)
	}
	// A part of a line has 250 entries, each of at most an ID, a deadline and what else
	// is known; SCAN and the clients' names come in pages of their own.
	if most := c.most.Load(); most > 250*3+10 {
		t.Errorf("a reply of a script has %d elements", most)
	}
	var longest time.Duration
	for _, one := range rdb.SlowLogGet(t.Context(), 1000).Val() {
		if strings.HasPrefix(strings.ToLower(one.Args[0]), "eval") {
			longest = max(longest, one.Duration)
		}
	}
	t.Logf("longest reply %d elements; longest script above 1 ms: %v", c.most.Load(), longest)
}
