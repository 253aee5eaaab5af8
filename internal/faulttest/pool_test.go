package faulttest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// All connections of the caller's pool are taken for longer than a place in the
// queue lasts without a poll: a waiter that was parked before gets its lease as soon
// as it is free, a holder keeps its lease and releases it, and later calls get
// an answer.
func TestCallersPoolIsTaken(t *testing.T) {
	t.Cleanup(func() { leaktest.Check(t, dialling()) })
	server := redistest.Start(t)
	w := newBareFixture(t)
	join := func(change ...func(*redis.Options)) (*redis.Client, *holdfast.Client) {
		rdb := server.Client(change...)
		c, err := holdfast.New(goredis.New(rdb))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = c.Close(), rdb.Close() })
		return rdb, c
	}
	_, other := join()
	const ttl = 3 * time.Second // shorter than the connections are taken, longer than a stall of the machine
	var taken sync.WaitGroup
	type party struct {
		c         *holdfast.Client
		mine, its *holdfast.Lease // it holds one, and waits for the other
		waits     <-chan result
	}
	var all []party
	for what, limit := range map[string]func(*redis.Options){
		"size":   func(o *redis.Options) { o.PoolSize = 2 },
		"active": func(o *redis.Options) { o.MaxActiveConns = 2 },
	} {
		rdb, c := join(limit)
		p := party{c: c, mine: w.lock(c.Mutex(what, holdfast.WithTTL(ttl)).Lock), its: w.lock(other.Mutex("its " + what).Lock)}
		p.waits = startLock(context.Background(), c.Mutex("its "+what).Lock)
		w.waiting(other, "its "+what, 1)
		for range 2 {
			taken.Go(func() {
				for { // a poll may have the connection just then
					err := rdb.BLPop(context.Background(), time.Minute, "list").Err()
					if !errors.Is(err, redis.ErrPoolExhausted) && !errors.Is(err, redis.ErrPoolTimeout) {
						return
					}
					w.elapse(time.Millisecond)
				}
			})
		}
		all = append(all, p)
	}
	w.eventually("all connections are taken", func() bool {
		return server.Client().InfoMap(t.Context(), "clients").Val()["Clients"]["blocked_clients"] == "4"
	})
	w.elapse(3500 * time.Millisecond)
	for _, p := range all {
		if p.mine.Err() != nil {
			t.Errorf("the holder lost its lease: %v", p.mine.Err())
		}
		at := time.Now()
		w.release(p.mine)
		w.release(p.its)
		r := w.granted(p.waits)
		l := w.lock(p.c.Mutex("new").TryLock)
		w.release(l)
		w.release(r.lease)
		w.within(at, 3*time.Second, "all that") // a call that waits for the pool takes 4 s alone
	}
	if err := server.Client().RPush(t.Context(), "list", 1, 2, 3, 4).Err(); err != nil {
		t.Fatal(err)
	}
	taken.Wait()
}
