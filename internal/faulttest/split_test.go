package faulttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A master is cut off from its replicas and the Sentinels, but not from the
// holder, which could renew its lease there for ever while another holds the
// resource on the new master. The holder is notified at its next renewal, its client's
// other leases go on, and its subscription is on the new master.
func TestSentinelSplit(t *testing.T) {
	if !inProcessOfItsOwn(t) {
		return
	}
	t.Cleanup(func() {
		leaktest.Check(t, // the rest is of go-redis, which never closes what it has to the Sentinels for a cluster's client
			dialling(),
			"github.com/redis/go-redis/v9.(*sentinelFailover).listen(",
			"github.com/redis/go-redis/v9.(*channel).initHealthCheck.func1(",
			"github.com/redis/go-redis/v9.(*channel).initMsgChan.func1(")
	})
	group := redistest.StartSentinel(t, redistest.WithSplitUser())
	options := &redis.FailoverOptions{
		MasterName: redistest.SentinelName, SentinelAddrs: group.Addrs(),
		Username: redistest.SplitUser, Password: redistest.SplitPassword,
	}
	join := func(rdb redis.UniversalClient) *holdfast.Client {
		c, err := holdfast.New(goredis.New(rdb))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = c.Close(), rdb.Close() })
		return c
	}
	w := newBareFixture(t)
	a, b := join(redis.NewFailoverClient(options)), join(redis.NewFailoverClusterClient(options))
	var slowest time.Duration
	rounds := redistest.Scale(2, 20)
	for round := range rounds {
		slowest = max(slowest, splitInMidHold(w, group, a, b, fmt.Sprint("stock:", round)))
		a, b = b, a
	}
	t.Logf("%d of %d holders were notified, at most %v after the next one entered", rounds, rounds, slowest.Round(time.Millisecond))
}

// ownProcessEnv marks the process of a test that has one to itself.
const ownProcessEnv = "HOLDFAST_FAULTTEST_ALONE"

// inProcessOfItsOwn runs the test in a process of its own, for what it leaves behind by
// no fault of ours would be held against the tests after it. It returns true there.
func inProcessOfItsOwn(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownProcessEnv) == t.Name() {
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run", exactly([]string{t.Name()}), "-test.v")
	cmd.Env = append(os.Environ(), ownProcessEnv+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("%v:\n%s", err, out)
	}
	t.Logf("%s", out)
	return false
}

// splitInMidHold returns how long after the next one entered the holder was notified.
func splitInMidHold(w *fixture, group *redistest.Sentinel, a, b *holdfast.Client, name string) time.Duration {
	w.t.Helper()
	const ttl = 6 * time.Second
	first := w.lock(b.Mutex("ear:" + name).Lock)
	ch := startLock(context.Background(), a.Mutex("ear:"+name).Lock) // a listens from now on
	w.waiting(b, "ear:"+name, 1)
	w.release(first)
	listens := w.get(ch)
	if listens.err != nil {
		w.t.Fatal(listens.err)
	}
	w.release(listens.lease)
	kept := w.lock(a.Mutex("kept:" + name).Lock)
	catchUp(w.t, group)

	group.Split()
	held := w.lock(a.Mutex(name, holdfast.WithTTL(ttl)).Lock) // the replicas never get it
	group.AwaitFailOver()
	next := w.lock(b.Mutex(name).Lock)
	entered := time.Now()
	lost := w.lost(held)
	took := w.stalls.Within(w.t, entered, ttl/3+time.Second, "to notify the holder of the next one")
	if lost.Cause != holdfast.LostDeleted && lost.Cause != holdfast.LostTaken {
		w.t.Errorf("the holder got %v", lost)
	}
	var busy *holdfast.HeldError // the caller's own connections have moved, too
	if l, err := a.Mutex(name).TryLock(w.t.Context()); !errors.As(err, &busy) {
		w.t.Errorf("TryLock of what another holds on the new master: %v, %v", l, err)
	}
	w.eventually("the subscription is on the new master", func() bool {
		rdb := redis.NewClient(&redis.Options{Addr: group.Master().Addr(), PoolSize: 1})
		defer rdb.Close()
		channels, err := rdb.PubSubChannels(w.t.Context(), "*:wake:*").Result()
		return err == nil && len(channels) >= 1
	})
	if kept.Err() != nil {
		w.t.Errorf("a lease that the new master has was lost: %v", kept.Err())
	}
	w.waitRenewal(kept)
	w.release(kept)
	w.release(next)
	group.Heal()
	return took
}
