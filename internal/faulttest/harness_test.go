package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // of workers, which start no server
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(work(role))
	}
	pickTests()
	os.Exit(m.Run())
}

// waitTimeout bounds what a test waits for; it fails then.
const waitTimeout = 20 * time.Second

// fixture is one Redis, or a quorum, with clients. When the test ends, it checks that
// nothing is left in the store.
type fixture struct {
	t      *testing.T
	redis  *redistest.Server   // also has the data that the locks protect; of a quorum the first one
	nodes  []*redistest.Server // of a quorum all
	addrs  []string            // what clients dial: the servers or proxies before them
	stores []engine.Engine     // the nodes themselves, to inspect
	queue  *queue              // of a quorum
	stalls *redistest.Stalls

	workers map[int]bool // processes by ID, and whether they have closed their client
}

// newFixture starts a Redis. When the test ends no key may be without TTL, no
// lease or wait may be left, and no goroutine.
func newFixture(t *testing.T, opts ...redistest.Option) *fixture {
	t.Helper()
	leaktest.Check(t, dialling())
	t.Cleanup(func() { leaktest.Check(t, dialling()) })
	w := newBareFixture(t)
	if sizeOfQuorum() > 1 {
		w.queue = &queue{all: make(map[string]map[string]bool)}
	}
	if inMemory() {
		w.memories()
	} else {
		w.servers(opts)
	}
	t.Cleanup(w.checkClean)
	return w
}

// newBareFixture is a fixture for a test that starts its servers itself.
func newBareFixture(t *testing.T) *fixture {
	return &fixture{t: t, stalls: redistest.WatchStalls(t)}
}

// within fails the test if something that began at an instant has taken longer than it
// may and the machine stalled.
func (w *fixture) within(begin time.Time, limit time.Duration, what string) {
	w.t.Helper()
	w.stalls.Within(w.t, begin, limit, what)
}

// dialling ignores a goroutine of go-redis that tries once a second to reach a server, and
// ends within a second of its client.
func dialling() string {
	return "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial("
}

// servers starts the servers of a fixture.
func (w *fixture) servers(opts []redistest.Option) {
	for range sizeOfQuorum() {
		s := startStore(w.t, opts...)
		w.nodes, w.addrs = append(w.nodes, s), append(w.addrs, s.Addr())
		w.stores = append(w.stores, goredis.New(s.Client()))
	}
	w.redis = w.nodes[0]
}

// client returns a client with connection pools of its own, closed with the
// test.
func (w *fixture) client(opts ...holdfast.Option) *holdfast.Client {
	w.t.Helper()
	var pools []redis.UniversalClient
	for _, addr := range w.addrs {
		pools = append(pools, connect(addr))
	}
	return w.clientOf(pools, opts...)
}

// clientAs returns a client that is a user of the servers.
func (w *fixture) clientAs(user, password string) *holdfast.Client {
	w.t.Helper()
	var pools []redis.UniversalClient
	for _, addr := range w.addrs {
		pools = append(pools, redis.NewClient(&redis.Options{Addr: addr, Username: user, Password: password}))
	}
	return w.clientOf(pools)
}

func (w *fixture) clientOf(pools []redis.UniversalClient, opts ...holdfast.Option) *holdfast.Client {
	w.t.Helper()
	var e engine.Engine
	if inMemory() {
		e = quorum.New(w.stores...)
	} else {
		e = engineOn(pools)
	}
	if w.queue != nil {
		e = queued{e, w.queue}
	}
	c, err := holdfast.New(e, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = c.Close() // a test that needs its result closes the client itself
		for _, rdb := range pools {
			_ = rdb.Close()
		}
	})
	return c
}

// through puts a proxy before the server for all clients made from now on.
func (w *fixture) through() *redistest.Proxy { return w.throughAll()[0] }

// eventually polls until cond holds.
func (w *fixture) eventually(what string, cond func() bool) {
	w.t.Helper()
	redistest.Await(w.t, waitTimeout, what, cond)
}

// lockFunc acquires a lease: m.Lock, rw.TryRLock and so on.
type lockFunc = func(context.Context) (*holdfast.Lease, error)

// units returns the lockFunc that acquires units of a semaphore.
func units(s *holdfast.Semaphore, weight int) lockFunc {
	return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, weight) }
}

// lock acquires a lease or fails the test.
func (w *fixture) lock(lock lockFunc) *holdfast.Lease {
	w.t.Helper()
	return w.granted(startLock(context.Background(), lock)).lease
}

// release releases a lease or fails the test.
func (w *fixture) release(l *holdfast.Lease) {
	w.t.Helper()
	if err := l.Release(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// result is the result of a startLock.
type result struct {
	lease *holdfast.Lease
	err   error
	at    time.Time
}

// startLock acquires a lease in a goroutine; the channel receives the result.
func startLock(ctx context.Context, lock lockFunc) <-chan result {
	ch := make(chan result, 1)
	go func() {
		l, err := lock(ctx)
		ch <- result{l, err, time.Now()}
	}()
	return ch
}

// waiting waits until n waiters are in the store's queue; on a quorum, until so many
// requests of this process were answered with a place in it.
func (w *fixture) waiting(c *holdfast.Client, name string, n int) {
	w.t.Helper()
	w.eventually("waiters are in the queue", func() bool {
		if w.queue != nil {
			return w.queue.length(name) == n
		}
		s, err := c.Snapshot(context.Background(), name)
		return err == nil && len(s.Waiters) == n
	})
}

// get receives a result in time.
func (w *fixture) get(ch <-chan result) result {
	w.t.Helper()
	select {
	case r := <-ch:
		return r
	case <-time.After(waitTimeout):
		w.t.Fatalf("no result in %v", waitTimeout)
		return result{}
	}
}

// granted receives a result in time, and fails the test if it is an error.
func (w *fixture) granted(ch <-chan result) result {
	w.t.Helper()
	r := w.get(ch)
	if r.err != nil {
		w.t.Fatal(r.err)
	}
	return r
}

// lost waits until the lease is lost, and returns its error.
func (w *fixture) lost(l *holdfast.Lease) *holdfast.LostError {
	w.t.Helper()
	select {
	case <-l.Done():
	case <-time.After(waitTimeout):
		w.t.Fatalf("the holder was not notified in %v", waitTimeout)
	}
	e, ok := errors.AsType[*holdfast.LostError](l.Err())
	if !ok {
		w.t.Fatalf("Err is %v, not a LostError", l.Err())
	}
	return e
}

// waitRenewal waits until the lease is renewed once more.
func (w *fixture) waitRenewal(l *holdfast.Lease) {
	w.t.Helper()
	before := l.Deadline()
	w.eventually("the lease is renewed", func() bool {
		if l.Err() != nil {
			w.t.Fatal(l.Err())
		}
		return l.Deadline().After(before)
	})
}

// evals counts the script calls that the server has executed.
func evals(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	info, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for line := range strings.Lines(info) {
		var n int
		for _, name := range []string{"cmdstat_eval:calls=%d", "cmdstat_evalsha:calls=%d"} {
			if _, err := fmt.Sscanf(line, name, &n); err == nil {
				total += n
			}
		}
	}
	return total
}

// keysOf returns the keys of a resource. A node of a quorum may have none yet: a grant
// does not wait for all of them.
func (w *fixture) keysOf(name string) []string {
	w.t.Helper()
	var keys []string
	w.on(w.nodes, func(rdb *redis.Client) error {
		some, err := rdb.Keys(w.t.Context(), "*"+name+"*").Result()
		keys = append(keys, some...)
		return err
	})
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) == 0 {
		w.t.Fatalf("no keys of %s", name)
	}
	return keys
}

// subscribers counts the clients that listen for wake-ups, on the node where they are
// fewest.
func subscribers(t *testing.T, w *fixture) int {
	t.Helper()
	least := math.MaxInt
	w.on(w.nodes, func(rdb *redis.Client) error {
		channels, err := rdb.PubSubChannels(t.Context(), "*:wake:*").Result()
		least = min(least, len(channels))
		return err
	})
	return least
}
