package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// holdSeveral is the role of a worker that locks all the resources of the task, prints
// so, and holds them until it is killed or its input ends.
func (w *worker) holdSeveral() error {
	l, err := w.c.Multi(strings.Fields(w.Resource), holdfast.WithTTL(w.TTL)).Lock(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("held", l.Token())
	w.in.Scan()
	return l.Release(context.Background())
}

// transfer moves units between two accounts at a time, named in any order, until
// its input ends.
func (w *worker) transfer() error {
	return w.repeat(func(ctx context.Context) error {
		if err := w.transferOnce(ctx); !errors.Is(err, holdfast.ErrLost) {
			return err
		}
		return nil
	})
}

func (w *worker) transferOnce(ctx context.Context) error {
	accounts := strings.Fields(w.Resource)
	rand.Shuffle(len(accounts), func(i, j int) { accounts[i], accounts[j] = accounts[j], accounts[i] })
	from, to := accounts[0], accounts[1]
	return w.c.Multi([]string{from, to}, holdfast.WithTTL(w.TTL)).Do(ctx, func(ctx context.Context) error {
		have, err := w.rdb.HMGet(ctx, w.Counter, from, to).Result()
		if err != nil {
			return err
		}
		var a, b int
		if _, err := fmt.Sscan(have[0].(string)+" "+have[1].(string), &a, &b); err != nil {
			return err
		}
		return w.rdb.HSet(ctx, w.Counter, from, a-1, to, b+1).Err() // both or none
	})
}

// useSeveral is the role of callers that lock several of the names at once, in any order,
// use them for a while and release them: see useShares.
func (w *worker) useSeveral() error { return w.repeatUse(w.useSome) }

func (w *worker) useSome(ctx context.Context, d *usageLog) error {
	names := strings.Fields(w.Resource)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+rand.IntN(len(names))]
	l, err := w.c.Multi(names, holdfast.WithTTL(w.TTL)).Lock(ctx)
	if err != nil {
		return err
	}
	if len(l.Tokens()) != len(names) {
		return fmt.Errorf("tokens %v for %v", l.Tokens(), names)
	}
	d.use(ctx, d.caller(), l, 1, w.holdFor())
	_ = l.Release(ctx) // it may be lost, unreachable or done
	return nil
}

// Five processes take several of five names at once while processes are killed and
// stopped and Redis is killed and started again. By one clock, no two ever rely on
// one name, the tokens of each name increase, and a lease covers all its names or
// none; afterwards all of them can be had.
func TestMultiUnderFaults(t *testing.T) {
	w := newFixture(t, keepingData())
	length := primitivetest.Soak(t, 6*time.Second)
	names := strings.Fields("a b c d e")
	r := &workerGroup{w: w, role: "use several names", task: task{Resource: strings.Join(names, " "), TTL: 400 * time.Millisecond, Callers: 2}}
	r.startAll(5)
	r.injectFaults(length, r.task.TTL, func(lines []string) bool {
		held := map[string]int{}
		for _, s := range usagesOf(t, lines) {
			held[s.resource]++
		}
		return !slices.ContainsFunc(names, func(name string) bool { return held[name] < 5 })
	})
	r.finishAll()
	ctx, cancel := context.WithTimeout(t.Context(), r.task.TTL+5*time.Second)
	defer cancel()
	l, err := w.client().Multi(names).Lock(ctx)
	if err != nil {
		t.Fatalf("all names, at the end: %v", err)
	}
	w.release(l)
	all := usagesOf(t, r.lines)
	for _, name := range names {
		var own []usage
		for _, s := range all {
			if s.resource == name {
				own = append(own, s)
			}
		}
		if _, err := checkOverlap(own, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Logf("%d uses of %d names; %v in %v", len(all), len(names), r.faults, length)
}

// A holder that dies frees all its resources within the TTL.
func TestHolderOfAMultiKilled(t *testing.T) {
	w := newFixture(t)
	const ttl = 2 * time.Second
	p := w.start("hold several names", task{Resource: "b a c", TTL: ttl})
	p.expect("held")
	m := w.client().Multi([]string{"c", "a", "b"})
	_, err := m.TryLock(t.Context())
	if held, ok := errors.AsType[*holdfast.HeldError](err); !ok || held.Resource != "a" {
		t.Errorf("TryLock: %v", err)
	}
	p.kill()
	start := time.Now()
	l := w.lock(m.Lock)
	w.within(start, ttl+500*time.Millisecond, "Lock")
	w.release(l)
}

// An operator's break of one resource ends the lease of all, at once. Others may have
// them when the holder has released it.
func TestMultiIsNotifiedOfABreak(t *testing.T) {
	w := newFixture(t)
	l := w.lock(w.client().Multi([]string{"a", "b", "c"}).Lock)
	w.eventually("the client listens", func() bool { return subscribers(t, w) > 0 })
	op := w.client()
	s, err := op.Snapshot(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := op.Break(t.Context(), "b", s.Holders[0].ID); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if lost := w.lost(l); lost.Resource != "b" || lost.Cause != holdfast.LostBroken {
		t.Errorf("lost: %v", lost)
	}
	w.within(start, 100*time.Millisecond+grace, "to notify the holder")
	if _, err := op.Multi([]string{"c", "b", "a"}).TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
		redistest.Broken(t, "another could enter while the holder is inside: %v", err)
	}
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Release: %v", err)
	}
	other := w.lock(op.Multi([]string{"c", "b", "a"}).Lock)
	w.release(other)
}

// Transfers between accounts in any direction, by several processes of which one
// after the other is killed: no wait is endless, and no unit is lost.
func TestMultiUnderKills(t *testing.T) {
	w := newFixture(t)
	const each = 1000
	accounts := []string{"a", "b", "c", "d", "e"}
	rdb := redis.NewClient(&redis.Options{Addr: w.addrs[0]})
	defer rdb.Close()
	for _, a := range accounts {
		if err := rdb.HSet(t.Context(), "accounts", a, each).Err(); err != nil {
			t.Fatal(err)
		}
	}
	rdb.Expire(t.Context(), "accounts", 10*time.Minute)
	tk := task{Resource: strings.Join(accounts, " "), TTL: time.Second, Callers: 4, Counter: "accounts"}
	var all []*process
	for range 3 {
		all = append(all, w.start("transfer", tk))
	}
	for _, p := range all {
		p.expect("ready")
	}
	for range 5 {
		w.elapse(700 * time.Millisecond)
		all[0].kill()
		all = append(all[1:], w.start("transfer", tk))
		all[len(all)-1].expect("ready")
	}
	w.elapse(time.Second)
	for _, p := range all {
		p.finish()
	}
	have, err := rdb.HGetAll(t.Context(), "accounts").Result()
	if err != nil {
		t.Fatal(err)
	}
	sum, moved := 0, false
	for _, v := range have {
		var n int
		if _, err := fmt.Sscan(v, &n); err != nil {
			t.Fatal(err)
		}
		sum += n
		moved = moved || n != each
	}
	if sum != each*len(accounts) || !moved {
		redistest.Broken(t, "the accounts are %v: together %d, want %d", have, sum, each*len(accounts))
	}
}

// The resources of a Multi may live on different masters of a cluster.
func TestMultiOnACluster(t *testing.T) {
	leaktest.Check(t, dialling())
	t.Cleanup(func() { leaktest.Check(t, dialling()) })
	var addrs []string
	var nodes []*redistest.Server
	for i := range 3 {
		s := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes"))
		if err := s.Client().ClusterAddSlotsRange(t.Context(), i*5462, min((i+1)*5462-1, 16383)).Err(); err != nil {
			t.Fatal(err)
		}
		nodes, addrs = append(nodes, s), append(addrs, s.Addr())
	}
	w := newBareFixture(t)
	for _, addr := range addrs[1:] {
		host, port, _ := strings.Cut(addr, ":")
		if err := nodes[0].Client().ClusterMeet(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range nodes {
		w.eventually("the cluster is complete", func() bool {
			info := s.Client().ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	w.stores = []engine.Engine{goredis.New(rdb)}
	t.Cleanup(w.nothingLeft)
	client := func() *holdfast.Client {
		c, err := holdfast.New(goredis.New(rdb))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	names := strings.Fields("a b c d e f g h")
	l := w.lock(client().Multi(names).Lock)
	for _, s := range nodes {
		if keys, err := s.Keys(t.Context()); err != nil || len(keys) == 0 {
			t.Errorf("nothing on %s (%v)", s.Addr(), err)
		}
	}
	slices.Reverse(names)
	next, other := make(chan result, 1), client()
	go func() {
		l, err := other.Multi(names).Lock(t.Context())
		next <- result{l, err, time.Now()}
	}()
	w.release(l)
	r := w.granted(next)
	w.release(r.lease)
}
