package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// failoversEnv makes the test of killed masters run for more rounds, like 50.
const failoversEnv = "HOLDFAST_FAILOVERS"

// A master is killed in mid-hold and its replica promoted, again and again. With
// all replicas confirming grants, no other caller enters before the holder
// has released or was notified: neither if it kept its lease over the failover, nor if the
// failover took too long for that.
func TestMasterKilledInMidHold(t *testing.T) {
	rounds := 3
	if n, err := strconv.Atoi(os.Getenv(failoversEnv)); err == nil {
		rounds = n
	}
	onFailoverStores(t, func(w *fixture, g failoverStore) {
		confirm := goredis.WithReplicas(g.replicas(), time.Second)
		a, b := clientOn(w.t, g, confirm), clientOn(w.t, g, confirm)
		kept, lost := 0, 0
		var slowest time.Duration
		for round := range rounds {
			r := killInMidHold(w, g, a, b, fmt.Sprint("stock:", round))
			if r.kept {
				kept++
			} else {
				lost++
			}
			slowest = max(slowest, r.entered)
			a, b = b, a
		}
		w.t.Logf("%d masters killed in mid-hold: %d holders kept their lease, %d were notified; the next entered at most %v after the failover or the release",
			rounds, kept, lost, slowest.Round(time.Millisecond))
	})
}

// killed is how a round went.
type killed struct {
	kept    bool          // the holder kept its lease over the failover
	entered time.Duration // from when all was well again, or the release if that came later, until the next one held
}

func killInMidHold(w *fixture, g failoverStore, a, b *holdfast.Client, name string) killed {
	w.t.Helper()
	ttl := 1500*time.Millisecond + rand.N(3*time.Second)
	h := w.lock(a.Mutex(name, holdfast.WithTTL(ttl)).Lock)
	type entry struct {
		result
		before error // what the holder knew at that moment
	}
	next := make(chan entry, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*waitTimeout)
		defer cancel()
		l, err := b.Mutex(name, holdfast.WithTTL(ttl)).Lock(ctx)
		next <- entry{result{l, err, time.Now()}, h.Err()}
	}()
	w.waiting(b, name, 1)
	w.elapse(rand.N(time.Second))
	master := g.master(name)
	master.Kill()
	w.elapse(rand.N(time.Second))
	g.promote(master)
	w.elapse(rand.N(time.Second / 2))
	g.rejoin(master) // until then nothing can be confirmed by all replicas
	free := time.Now()
	w.elapse(rand.N(time.Second))
	kept := h.Err() == nil
	if err := h.Release(context.Background()); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
		w.t.Errorf("%s: Release: %v", name, err)
	}
	if kept {
		free = time.Now()
	}
	var n entry
	select {
	case n = <-next:
	case <-time.After(3 * waitTimeout):
		w.t.Fatalf("%s: the waiter got neither a lease nor an error", name)
	}
	switch {
	case n.err != nil:
		w.t.Fatalf("%s: the waiter: %v", name, n.err)
	case n.before == nil:
		redistest.Broken(w.t, "%s: two holders: token %d entered while %d held", name, n.lease.Token(), h.Token())
	case n.lease.Token() <= h.Token():
		redistest.Broken(w.t, "%s: token %d after %d", name, n.lease.Token(), h.Token())
	}
	if err := n.lease.Release(context.Background()); err != nil && !errors.Is(err, holdfast.ErrLost) {
		w.t.Errorf("%s: Release: %v", name, err)
	}
	return killed{kept, max(0, n.at.Sub(free))}
}

// Without WithReplicas a grant that the replica never had is forgotten with the
// master, and another may enter while the first holder still acts: its token is
// higher, so what is fenced refuses the first one, and its next renewal finds the loss.
func TestDoubleGrantIsFenced(t *testing.T) {
	onFailoverStores(t, func(w *fixture, g failoverStore) {
		protected := redistest.Start(w.t).Client()
		write := func(token uint64) bool {
			w.t.Helper()
			ok, err := fencedWrite(context.Background(), protected, "stock", token)
			if err != nil {
				w.t.Fatal(err)
			}
			return ok
		}
		a, b := clientOn(w.t, g), clientOn(w.t, g)
		near := nameOnSameMaster(g, "stock:1")
		w.release(w.lock(a.Mutex(near).Lock)) // connections
		w.release(w.lock(b.Mutex(near).Lock))
		master := g.master("stock:1")
		master.HoldBackReplicas()
		first := w.lock(a.Mutex("stock:1", holdfast.WithTTL(12*time.Second)).Lock)
		if !write(first.Token()) {
			w.t.Error("the only holder's write was refused")
		}
		master.Kill()
		g.promote(master)
		second := w.lock(b.Mutex("stock:1").Lock)
		if first.Err() != nil {
			w.t.Errorf("no double grant: the first holder knew %v already", first.Err())
		}
		if !write(second.Token()) || write(first.Token()) || !write(second.Token()) {
			w.t.Errorf("tokens %d, then %d: the fence let the wrong one in", first.Token(), second.Token())
		}
		if lost := w.lost(first); lost.Cause != holdfast.LostDeleted {
			w.t.Errorf("the first holder got %v", lost)
		}
		w.release(second)
		g.rejoin(master)
	})
}

// The same with WithReplicas: there is no grant, and the error says why.
func TestTooFewReplicasNoGrant(t *testing.T) {
	onFailoverStores(t, func(w *fixture, g failoverStore) {
		confirm := goredis.WithReplicas(g.replicas(), 100*time.Millisecond)
		a, b := clientOn(w.t, g, confirm), clientOn(w.t, g, confirm)
		near := nameOnSameMaster(g, "stock:2")
		held := w.lock(a.Mutex("stock:2", holdfast.WithTTL(time.Second)).Lock)
		master := g.master("stock:2")
		master.HoldBackReplicas()
		_, err := b.Mutex(near).TryLock(w.t.Context())
		if _, ok := errors.AsType[*goredis.ReplicasError](err); !ok || !errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), fmt.Sprintf("0 of %d replicas", g.replicas())) {
			w.t.Errorf("TryLock: %v", err)
		}
		if lost := w.lost(held); lost.Cause != holdfast.LostUnreachable {
			w.t.Errorf("the holder got %v, want unreachable", lost)
		}
		w.eventually("what was not granted is withdrawn", func() bool {
			for _, name := range []string{near, "stock:2"} {
				s, err := b.Snapshot(context.Background(), name)
				if err != nil || len(s.Holders)+len(s.Waiters) > 0 {
					return false
				}
			}
			return true
		})
		ch := startLock(context.Background(), b.Mutex("stock:2").Lock)
		w.elapse(300 * time.Millisecond)
		master.ReleaseReplicas()
		r := w.get(ch) // a waiter rides it out
		if r.err != nil {
			w.t.Fatal(r.err)
		}
		w.release(r.lease)
	})
}

// Sentinels fail over by themselves under holders and waiters: what the replica
// had continues, without an error; READONLY, LOADING and lost connections
// are ridden out.
func TestSentinelFailsOver(t *testing.T) {
	w := newBareFixture(t)
	group := redistest.StartSentinel(t)
	g := &sentinelStore{group}
	a, b := clientOn(t, g), clientOn(t, g)
	held := w.lock(a.Mutex("stock:1", holdfast.WithTTL(20*time.Second)).Lock)
	ch := startLock(context.Background(), b.Mutex("stock:1").Lock)
	w.waiting(b, "stock:1", 1)
	catchUp(t, group)
	second := group.FailOver() // in good order: the old master lives on as a replica
	w.waiting(b, "stock:1", 1)
	group.AwaitWatched()
	catchUp(t, group)
	second.Kill()
	group.AwaitFailOver()
	w.waiting(b, "stock:1", 1)
	if held.Err() != nil {
		t.Errorf("the lease was lost: %v", held.Err())
	}
	w.waitRenewal(held)
	w.release(held)
	r := w.get(ch)
	if r.err != nil || r.lease.Token() <= held.Token() {
		t.Fatalf("the waiter: %+v after token %d", r, held.Token())
	}
	w.release(r.lease)
}

// catchUp waits until the replicas have what the master has.
func catchUp(t *testing.T, group *redistest.Sentinel) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: group.Master().Addr(), PoolSize: 1})
	defer rdb.Close()
	if err := rdb.Publish(t.Context(), "settle", "").Err(); err != nil {
		t.Fatal(err)
	}
	if n := rdb.Wait(t.Context(), len(group.Replicas()), waitTimeout).Val(); int(n) < len(group.Replicas()) {
		t.Fatalf("%d replicas have it", n)
	}
}
