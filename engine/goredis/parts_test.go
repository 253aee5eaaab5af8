package goredis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// between runs something after the first part of a snapshot: the first command of a
// connection pool after it is armed.
type between struct {
	armed atomic.Bool
	run   func()
}

func (b *between) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && b.armed.CompareAndSwap(true, false) {
			b.run()
		}
		return err
	}
}

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// watched is an engine whose snapshots are interrupted.
func watched(t *testing.T, s *redistest.Server) (*goredis.Engine, *between) {
	rdb, b := s.Client(), &between{}
	rdb.AddHook(b)
	e := open(t, rdb)
	_, err := e.Snapshot(t.Context(), named("pool")) // the script is known from now on
	must(t, err)
	return e, b
}

// wantAll wants everybody once.
func wantAll(t *testing.T, s engine.Snapshot, holders, waiters int) {
	t.Helper()
	seen := map[string]int{}
	for i, h := range s.Holders {
		if seen[h.ID]++; i > 0 && h.Token <= s.Holders[i-1].Token {
			t.Fatalf("%s has token %d after %d", h.ID, h.Token, s.Holders[i-1].Token)
		}
	}
	for i, w := range s.Waiters {
		if seen[w.ID]++; i > 0 && w.Since.Before(s.Waiters[i-1].Since) {
			t.Fatalf("%s waits since %v, behind one since %v", w.ID, w.Since, s.Waiters[i-1].Since)
		}
	}
	if len(s.Holders) != holders || len(s.Waiters) != waiters || len(seen) != holders+waiters {
		t.Errorf("%d holders and %d waiters, %d in all, want %d and %d", len(s.Holders), len(s.Waiters), len(seen), holders, waiters)
	}
}

// Leases that are renewed between two parts, whether they were in the first or not,
// are all in the snapshot once.
func TestSnapshotWhileLeasesAreRenewed(t *testing.T) {
	const readers = 900
	s := redistest.Start(t)
	store := open(t, s.Client())
	var all []engine.Renewal
	for i := range readers {
		r := shared(fmt.Sprintf("c%d.a", i), 1)
		r.Kind, r.Capacity, r.TTL = engine.KindRW, readers, time.Minute+time.Duration(i)*time.Second
		all = append(all, engine.Renewal{Resource: r.Resource, Held: hold(t, store, r), TTL: time.Hour})
	}
	e, b := watched(t, s)
	b.run = func() {
		for _, err := range store.Renew(context.Background(), append(all[:100:100], all[readers-100:]...)) {
			must(t, err)
		}
	}
	b.armed.Store(true)
	snap, err := e.Snapshot(t.Context(), named("pool"))
	must(t, err)
	if b.armed.Load() {
		t.Fatal("the snapshot was read at once")
	}
	wantAll(t, snap, readers, 0)
}

// A waiter that is granted between two parts is shown as a holder, and what was
// released is not shown.
func TestSnapshotWhileAWaiterIsGranted(t *testing.T) {
	const waiters = 900
	for _, capacity := range []int{1, 3} {
		s := redistest.Start(t)
		store := open(t, s.Client())
		request := func(i int) engine.Request {
			r := shared(fmt.Sprintf("c%d.a", i), capacity)
			r.Capacity = capacity
			return r
		}
		first := hold(t, store, request(0))
		wait(t, store, request(1))
		var all sync.WaitGroup
		for i := 2; i <= waiters; i++ { // at once, since waiters live for three seconds
			all.Go(func() {
				if a, err := store.Acquire(t.Context(), request(i)); err != nil || a.Status != engine.Queued {
					t.Errorf("waiter %d: %+v, %v", i, a, err)
				}
			})
		}
		all.Wait()
		e, b := watched(t, s)
		b.run = func() { release(t, store, named("pool"), first) }
		b.armed.Store(true)
		snap, err := e.Snapshot(t.Context(), named("pool"))
		must(t, err)
		if b.armed.Load() {
			t.Fatal("the snapshot was read at once")
		}
		wantAll(t, snap, 1, waiters-1)
		if snap.Holders[0].ID != "c1.a" {
			t.Errorf("held by %s", snap.Holders[0].ID)
		}
	}
}

// Leases that end in the same microsecond do not keep a snapshot from going on.
func TestSnapshotOfLeasesThatEndTogether(t *testing.T) {
	const readers = 900
	s := redistest.Start(t)
	rdb := s.Client()
	store := open(t, rdb)
	for i := range readers {
		r := shared(fmt.Sprintf("c%d.a", i), 1)
		r.Kind, r.Capacity = engine.KindRW, readers
		hold(t, store, r)
	}
	till := float64(time.Now().Add(time.Minute).UnixMicro())
	for i := range readers {
		must(t, rdb.ZAdd(t.Context(), "p:{pool}:line", redis.Z{Score: till, Member: fmt.Sprintf("hc%d.a", i)}).Err())
	}
	snap, err := store.Snapshot(t.Context(), named("pool"))
	must(t, err)
	wantAll(t, snap, readers, 0)
	for snap, err := range store.List(t.Context(), prefix, "*") {
		must(t, err)
		wantAll(t, snap, readers, 0)
	}
}
