package goredis_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// traffic counts what a client sends: calls alone, and batches.
type traffic struct {
	alone, batches, batched atomic.Int64
	sent                    chan struct{}                 // receives a value for each sending, if not nil
	gate                    atomic.Pointer[chan struct{}] // nothing is sent until it is closed, if not nil
}

func (c *traffic) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *traffic) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if isScript(cmd) {
			c.alone.Add(callsIn(cmd))
			c.notify()
		}
		return next(ctx, cmd)
	}
}

func (c *traffic) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if isScript(cmds[0]) { // else it is the start of a connection
			c.batches.Add(1)
			for _, cmd := range cmds {
				c.batched.Add(callsIn(cmd))
			}
			c.notify()
		}
		return next(ctx, cmds)
	}
}

func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

// callsIn counts what a command does: a call for many has the keys of all.
func callsIn(cmd redis.Cmder) int64 { return int64(cmd.Args()[2].(int)) / 2 }

func (c *traffic) notify() {
	if c.sent != nil {
		c.sent <- struct{}{}
	}
	if gate := c.gate.Load(); gate != nil {
		<-*gate
	}
}

// One caller's calls go out by themselves; those of many share pipelines, and
// each gets its own answer.
func TestConcurrentCallsAreCombined(t *testing.T) {
	rdb := redistest.Start(t).Client()
	count := &traffic{}
	rdb.AddHook(count)
	// Two calls go twice: the scripts are not known.
	combines(t, open(t, rdb), count, 2)
}

// combines has one caller take turns and then many call at once, and counts what they send. So
// many calls of the first one go twice.
func combines(t *testing.T, e *goredis.Engine, count *traffic, twice int64) {
	t.Helper()
	const callers, turns = 64, 50
	client, err := holdfast.New(e) // Client.Stats shows the calls of all clients of the engine
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range turns {
		r := request(fmt.Sprintf("c1.%d", i))
		release(t, e, r.Resource, hold(t, e, r))
	}
	if alone := count.alone.Load(); alone != 2*turns+twice || count.batches.Load() != 0 {
		t.Errorf("one caller: %d calls alone and %d batches, want %d and none", alone, count.batches.Load(), 2*turns+twice)
	}
	for _, round := range []string{"first", "second"} { // after the first all scripts are known
		until(t, "no call is under way", func() bool { return client.Stats().Batches == engine.BatchDepth{} })
		alone, batched, batches := count.alone.Load(), count.batched.Load(), count.batches.Load()
		gate := make(chan struct{})
		count.gate.Store(&gate)
		var all sync.WaitGroup
		for g := range callers {
			all.Go(func() { hold(t, e, requestOf(fmt.Sprint("order:", g, round), fmt.Sprint("c1.", g, round))) })
		}
		var depth engine.BatchDepth
		until(t, "all calls are under way", func() bool {
			depth = client.Stats().Batches
			return depth.Sending+depth.Waiting == callers
		})
		count.gate.Store(nil)
		close(gate)
		all.Wait()
		alone, batched, batches = count.alone.Load()-alone, count.batched.Load()-batched, count.batches.Load()-batches
		t.Logf("%s round: %d calls alone and %d in %d batches", round, alone, batched, batches)
		if waited := int64(depth.Waiting); round == "second" && (alone != int64(depth.Sending) || batched < waited || waited < 8*batches) {
			t.Errorf("of %+v %d calls were sent alone and %d in %d batches: too many alone, or batches are too small", depth, alone, batched, batches)
		}
	}
}

// Of the first calls of a client one stores its description and the others are batched, also if an earlier one failed.
func TestFirstCallsOfAClientAreCombined(t *testing.T) {
	const callers = 64
	server := redistest.Start(t)
	e := open(t, server.Client())
	defer e.Leave("c1")
	first := requestOf("first", "c1.first")
	first.Client = &engine.Client{ID: "c1", Name: "new"}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := e.Acquire(ended, first)
	wantError(t, "a call that has ended", err, context.Canceled)
	server.Pause()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			r := first
			r.ID, r.Resource = fmt.Sprint("c1.", i), named(fmt.Sprint("order:", i))
			hold(t, e, r)
		})
	}
	until(t, "all calls but one use the batcher", func() bool {
		d := e.BatchDepth()
		return d.Sending+d.Waiting == callers-1
	})
	server.Resume()
	all.Wait()
	if n, err := server.Client().Exists(t.Context(), prefix+":client:c1").Result(); n != 1 {
		t.Errorf("the description of the client is not stored: %v", err)
	}
}

// If the server has lost its scripts or has no memory left, the calls of a pipeline are made again in so many round
// trips, however many there are.
func TestBatchIsMendedInFewRoundTrips(t *testing.T) {
	scripts, err := script.New(10 * time.Minute)
	must(t, err)
	server := redistest.Start(t)
	rdb, admin := server.Client(), server.Client()
	e := open(t, admin)
	count := &traffic{}
	rdb.AddHook(count)
	for _, memory := range []string{"0", "1"} {
		var trips []int64
		for _, n := range []int{8, 64} {
			must(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
			var renewals []script.Call
			for i := range n {
				r := requestOf(fmt.Sprint("order:", n, ":", i), "c1.a")
				keys := script.KeysOf([]byte(prefix + ":{" + r.Resource.Name + "}"))
				renewals = append(renewals, scripts.Renew(keys, script.Renew{ID: r.ID, Token: hold(t, e, r).Token, TTL: time.Minute}))
			}
			must(t, admin.ScriptFlush(t.Context()).Err())
			must(t, admin.ConfigSet(t.Context(), "maxmemory", memory).Err())
			before := count.alone.Load() + count.batches.Load()
			for i, err := range goredis.Batch(t.Context(), rdb, renewals) {
				if err != nil {
					t.Errorf("maxmemory %s: renewal %d of %d: %v", memory, i, n, err)
				}
			}
			trips = append(trips, count.alone.Load()+count.batches.Load()-before)
		}
		if t.Logf("maxmemory %s: %v round trips", memory, trips); trips[0] != trips[1] {
			t.Errorf("maxmemory %s: 8 calls took %d round trips, and 64 calls %d", memory, trips[0], trips[1])
		}
	}
}

// fillLanes makes a call for each lane while the server stands still, and returns
// when all are sent.
func fillLanes(ctx context.Context, t *testing.T, e *goredis.Engine, count *traffic, calls *sync.WaitGroup) {
	t.Helper()
	for i := range 4 { // as many as there are lanes
		calls.Go(func() {
			r := request(fmt.Sprint("c9.", i))
			r.Resource = named(fmt.Sprint("lane:", i))
			if _, err := e.Acquire(ctx, r); err != nil {
				t.Errorf("a call under way: %v", err)
			}
		})
		<-count.sent
	}
}

// A call that ends while it waits for a lane was never sent: nothing is left of
// it, and nothing has to be cleaned up.
func TestCallThatEndsBeforeItIsSent(t *testing.T) {
	stalls := redistest.WatchStalls(t)
	server := redistest.Start(t)
	count := &traffic{sent: make(chan struct{}, 64)}
	rdb := server.Client()
	e := open(t, rdb)
	warm := hold(t, e, request("c1.warm"))
	release(t, e, named("stock:42"), warm)
	rdb.AddHook(count)
	server.Pause()
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	fillLanes(ctx, t, e, count, &wg)
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	late := request("c1.late")
	late.Resource = named("late")
	start := time.Now()
	if _, err := e.Acquire(short, late); !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	stalls.Within(t, start, time.Second, "the call")
	server.Resume()
	wg.Wait()
	if n := count.alone.Load() + count.batched.Load(); n != 4 {
		t.Errorf("%d calls were sent, want the 4 with a lane", n)
	}
	if snap, err := e.Snapshot(t.Context(), late.Resource); err != nil || len(snap.Holders) != 0 {
		t.Errorf("of the late call is left: %+v, %v", snap, err)
	}
}

// A connection that hangs holds up those that went with it, for as long as they
// are willing to wait; the others have lanes of their own.
func TestLaneThatHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var hang atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &deafConn{Conn: c, deaf: hang.CompareAndSwap(true, false)}, err
	}
	rdb := server.Client(func(o *redis.Options) { o.Dialer = dial })
	e := open(t, rdb)
	hang.Store(true)
	lost, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := e.Acquire(lost, request("c1.lost")); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("over a deaf connection: %v", err)
	}
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			r := request(fmt.Sprint("c1.", g))
			r.Resource = named(fmt.Sprint("order:", g))
			if a, err := e.Acquire(ctx, r); err != nil || a.Status != engine.Granted {
				t.Errorf("over another connection: %+v, %v", a, err)
			}
		})
	}
	wg.Wait()
}

// deafConn sends, and receives nothing.
type deafConn struct {
	net.Conn
	deaf bool
}

func (c *deafConn) Write(b []byte) (int, error) {
	if c.deaf {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func TestStatsAllocateNothing(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	c, err := holdfast.New(goredis.New(rdb))
	must(t, err)
	defer c.Close()
	if n := testing.AllocsPerRun(200, func() { _ = c.Stats() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
