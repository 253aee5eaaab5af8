package faulttest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// fewNodes is what a fault of a minority strikes: servers, and what clients reach
// them through.
type fewNodes struct {
	w       *fixture
	nodes   []*redistest.Server
	proxies proxies
}

func (f fewNodes) each(do func(*redistest.Server)) {
	for _, s := range f.nodes {
		do(s)
	}
}

// command runs one command on each.
func (f fewNodes) command(words ...any) {
	f.w.t.Helper()
	f.w.on(f.nodes, func(rdb *redis.Client) error { return rdb.Do(f.w.t.Context(), words...).Err() })
}

// onKeys does something to each key of Holdfast.
func (f fewNodes) onKeys(do func(rdb *redis.Client, key string) error) {
	f.w.t.Helper()
	f.w.on(f.nodes, func(rdb *redis.Client) error {
		keys, err := rdb.Keys(f.w.t.Context(), holdfast.DefaultPrefix+"*").Result()
		if len(keys) == 0 {
			return fmt.Errorf("no keys: %w", err)
		}
		for _, key := range keys {
			err = errors.Join(err, do(rdb, key))
		}
		return err
	})
}

// faultsOfFew are faults of a minority that have no effect on callers; each begins, and
// returns what ends it. A restart keeps the data: a node that comes back without may
// vote twice. FLUSHALL deletes them too, without effect, because the lease is on all
// nodes when it comes.
func faultsOfFew() map[string]func(fewNodes) (end func()) {
	return map[string]func(fewNodes) func(){
		"hung": func(f fewNodes) func() {
			f.each((*redistest.Server).Pause)
			return func() { f.each((*redistest.Server).Resume) }
		},
		"killed": func(f fewNodes) func() {
			f.each((*redistest.Server).Kill)
			return func() { f.each((*redistest.Server).Restart) }
		},
		"cut off": func(f fewNodes) func() {
			f.proxies.blackhole()
			return f.proxies.heal
		},
		"replies lost": func(f fewNodes) func() {
			requireHit := f.proxies.loseReplies("stock")
			return func() { requireHit(f.w.t) }
		},
		"FLUSHALL": func(f fewNodes) func() {
			f.command("flushall")
			return func() {}
		},
		"SCRIPT FLUSH": func(f fewNodes) func() {
			f.command("script", "flush")
			return func() {}
		},
		"NOPERM": func(f fewNodes) func() {
			f.command("acl", "setuser", "default", "-eval", "-evalsha")
			return func() { f.command("acl", "setuser", "default", "+eval", "+evalsha") }
		},
		"WRONGTYPE": func(f fewNodes) func() {
			f.onKeys(func(rdb *redis.Client, key string) error {
				return rdb.Set(f.w.t.Context(), key, "a foreign value", time.Minute).Err()
			})
			return func() {
				f.onKeys(func(rdb *redis.Client, key string) error { return rdb.Del(f.w.t.Context(), key).Err() })
			}
		},
	}
}

// A minority of a quorum has each of the faults, without effect: a holder keeps its
// lease, others acquire and release, none enters beside the holder, and its waiter is
// granted at the end.
func TestMinorityUnderFaults(t *testing.T) {
	if sizeOfQuorum() == 1 {
		t.Setenv(topologyEnv, "quorum3")
	}
	for name, begin := range faultsOfFew() {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, keepingData())
			all := w.throughAll()
			few := fewNodes{w, w.minority(), all[:len(w.minority())]}
			c, other := w.client(), w.client()
			stock := other.Mutex("stock")
			last := w.lock(stock.Lock)
			w.release(last)
			held := w.lock(c.Mutex("held", holdfast.WithTTL(3*time.Second)).Lock) // longer than a stall of the machine
			w.eventually("all nodes have the lease", func() bool { return w.nodesWith("held") == len(w.nodes) })
			ch := startLock(t.Context(), other.Mutex("held").Lock)
			w.waiting(other, "held", 1)

			end := begin(few)
			for range 20 {
				l := w.lock(stock.Lock)
				if l.Token() <= last.Token() {
					redistest.Broken(t, "token %d after %d", l.Token(), last.Token())
				}
				w.release(l)
				last = l
			}
			w.waitRenewal(held)
			if _, err := c.Mutex("held").TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable) {
				t.Errorf("TryLock of what is held: %v", err)
			}
			end()

			w.eventually("all nodes have the lease again", func() bool { return w.nodesWith("held") == len(w.nodes) })
			if err := held.Err(); err != nil {
				t.Fatal(err)
			}
			w.release(held)
			r := w.get(ch)
			if r.err != nil || r.lease.Token() <= held.Token() {
				t.Fatalf("waiter: %+v, the holder had %d", r, held.Token())
			}
			w.release(r.lease)
		})
	}
}

// nodesWith counts the nodes on which a resource is held.
func (w *fixture) nodesWith(name string) int {
	n := 0
	for _, node := range w.stores {
		snap, err := node.Snapshot(w.t.Context(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: name})
		if err == nil && len(snap.Holders) > 0 {
			n++
		}
	}
	return n
}
