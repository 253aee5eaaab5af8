package goredis_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// crowd is a store in virtual time on which many die at once, and somebody whose lease
// of a second, in real time, must not suffer.
type crowd struct {
	testing.TB
	server  *redistest.Server
	rdb     *redis.Client
	engine  *goredis.Engine
	scripts *script.Set
	now     time.Time
}

func newCrowd(t testing.TB) *crowd {
	fragments := maps.Clone(virtual())
	delete(fragments, "notify")
	delete(fragments, "PORTION")
	delete(fragments, "FEW_FORGOTTEN")
	server := redistest.Start(t)
	rdb := server.Client()
	c := &crowd{TB: t, server: server, rdb: rdb, now: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	c.engine = goredis.New(rdb, goredis.WithFragments(fragments))
	var err error
	c.scripts, err = script.NewWith(10*time.Minute, fragments)
	must(t, err)
	t.Cleanup(func() { c.engine.Leave("nobody") })
	c.pass(0)
	must(t, rdb.ConfigSet(t.Context(), "slowlog-max-len", "1000000").Err())
	must(t, rdb.ConfigSet(t.Context(), "slowlog-log-slower-than", "300").Err())
	return c
}

func (c *crowd) pass(d time.Duration) {
	c.now = c.now.Add(d)
	must(c.TB, c.rdb.Set(context.Background(), "virtual:now", c.now.UnixMicro(), 0).Err())
}

// acquire makes one attempt.
func (c *crowd) acquire(r engine.Request) engine.Answer {
	c.Helper()
	a, err := c.engine.Acquire(c.Context(), r)
	must(c.TB, err)
	return a
}

// many makes attempts beside each other.
func (c *crowd) many(n int, r engine.Request, want engine.Status) {
	c.Helper()
	var wg sync.WaitGroup
	for from := range 64 {
		wg.Go(func() {
			for i := from; i < n; i += 64 {
				one := r
				one.ID = fmt.Sprintf("c%d.%d", from, i)
				if a, err := c.engine.Acquire(c.Context(), one); err != nil || a.Status != want {
					c.Errorf("%s: %+v, %v", one.ID, a, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// waiting is how long the line is.
func (c *crowd) waiting() int {
	n, err := c.rdb.ZCount(c.Context(), prefix+":{crowd}:line", "1", "(1000000000000").Result()
	must(c.TB, err)
	return int(n)
}

// leases is how many leases a shared resource has, also those that have expired.
func (c *crowd) leases() int {
	n, err := c.rdb.ZCount(c.Context(), prefix+":{crowd}:line", "1000000000000", "+inf").Result()
	must(c.TB, err)
	return int(n)
}

// beside runs f while somebody else keeps a lease of a second, and says what the
// longest script took.
func (c *crowd) beside(what string, f func()) {
	c.Helper()
	must(c.TB, c.rdb.Do(c.Context(), "slowlog", "reset").Err())
	e := goredis.New(c.rdb)
	r := requestOf("bystander", "b1.x"+fmt.Sprint(time.Now().UnixNano()))
	r.TTL = time.Second
	held := hold(c.TB, e, r)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		c.keep(e, r, &held, stop)
	}()
	start := time.Now()
	f()
	took := time.Since(start)
	close(stop)
	<-done
	release(c.TB, e, r.Resource, held)
	e.Leave("b1")
	log, err := c.rdb.SlowLogGet(c.Context(), -1).Result()
	must(c.TB, err)
	var took99, longest time.Duration // of the scripts that took a while: slowlog reset is slow itself
	var scripts []time.Duration
	for _, one := range log {
		if strings.HasPrefix(one.Args[0], "eval") {
			scripts = append(scripts, one.Duration)
		}
	}
	if slices.Sort(scripts); len(scripts) > 0 {
		took99, longest = scripts[len(scripts)*99/100], scripts[len(scripts)-1]
	}
	c.Logf("%s: %v in all, 99 of 100 scripts took %v at most, the longest %v", what, took.Round(time.Millisecond), took99, longest)
}

// keep renews a lease until it is stopped. It may end only if the machine stalled: then
// it is taken again.
func (c *crowd) keep(e *goredis.Engine, r engine.Request, held *engine.Held, stop chan struct{}) {
	stalls := redistest.WatchStalls(c.TB)
	tick := time.NewTicker(r.TTL / 5)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		began := time.Now()
		err := e.Renew(c.Context(), []engine.Renewal{{Resource: r.Resource, Held: *held, TTL: r.TTL}})[0]
		if now := time.Now(); err != nil && now.Sub(last) >= r.TTL && now.Sub(last)-stalls.Between(last, now) < r.TTL {
			r.ID += "x"
			began = now
			var a engine.Answer
			a, err = e.Acquire(c.Context(), r)
			*held = engine.Held{ID: r.ID, Token: a.Token}
		}
		if err != nil {
			c.Errorf("the bystander's lease: %v", err)
			return
		}
		last = began
	}
}

// sorts are what a crowd gathers about.
func sorts() map[string]engine.Request {
	mutex := requestOf("crowd", "c0.holder")
	mutex.TTL = time.Hour
	election, semaphore := mutex, mutex
	election.Kind = engine.KindElection
	semaphore.Kind, semaphore.Capacity = engine.KindSemaphore, 3
	semaphore.Weight = 3
	return map[string]engine.Request{"mutex": mutex, "election": election, "semaphore": semaphore}
}

// Those who die while the resource is held are gone before it is released: by the
// first waiter that polls, or by a renewal of the holder.
func TestDeadWaitersGoWhileItIsHeld(t *testing.T) {
	for name, r := range sorts() {
		for _, by := range []string{"a poll", "a renewal", "renewals together"} {
			t.Run(name+" by "+by, func(t *testing.T) {
				c := newCrowd(t)
				held, n := hold(t, c.engine, r), redistest.Scale(2000, 100_000)
				c.many(n, r, engine.Queued)
				c.pass(2 * time.Minute)
				live := r
				live.ID = "c.live"
				c.acquire(live)
				c.beside(fmt.Sprintf("%d dead", n), func() {
					if by == "a poll" {
						if a := c.acquire(live); a.Status != engine.Queued || a.Position != 0 {
							t.Errorf("after its poll: %+v", a)
						}
						return
					}
					all := []engine.Renewal{{Resource: r.Resource, Held: held, TTL: r.TTL}}
					for i := 0; by == "renewals together" && i < 8; i++ { // the others are not held
						all = append(all, engine.Renewal{Resource: named(fmt.Sprint(i)), Held: held, TTL: r.TTL})
					}
					must(t, c.engine.Renew(t.Context(), all)[0])
					c.engine.Settle()
				})
				if left := c.waiting(); left != 1 {
					t.Errorf("%d are in the line", left)
				}
				release(t, c.engine, r.Resource, held)
				if a := c.acquire(live); a.Status != engine.Granted {
					t.Errorf("after the release: %+v", a)
				}
			})
		}
	}
}

// A release before that clears up no more than a portion, and the rest goes behind
// it: the next one gets in by its next poll.
func TestReleaseWithDeadWaiters(t *testing.T) {
	for name, r := range sorts() {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			held, n := hold(t, c.engine, r), redistest.Scale(2000, 100_000)
			c.many(n, r, engine.Queued)
			c.pass(4 * time.Second)
			live := r
			live.ID = "c.live"
			c.acquire(live)
			c.beside(fmt.Sprintf("%d dead", n), func() {
				release(t, c.engine, r.Resource, held)
				if a := c.acquire(live); a.Status != engine.Granted {
					t.Errorf("after the release: %+v", a)
				}
				c.engine.Settle()
			})
			if left := c.waiting(); left != 0 {
				t.Errorf("%d are in the line", left)
			}
		})
	}
}

// Every script clears something, and no more than a portion, of which a grant or a message takes more than a
// lease or a waiter that is over.
func TestScriptClearsOnePortion(t *testing.T) {
	const (
		n    = 500
		over = queue.DefaultPortion + 8 // the waiters that a sweep checks first
		sent = queue.DefaultPortion/4 + 1
	)
	keys := script.KeysOf([]byte(prefix + ":{crowd}"))
	reader, writer := readersAndWriter()
	mutex := sorts()["mutex"]
	acquire := func(c *crowd, r engine.Request) script.Call {
		return c.scripts.Acquire(keys, script.Acquire{
			ID: r.ID, Kind: string(r.Kind), Capacity: r.Capacity, Weight: r.Weight, TTL: r.TTL, Queue: r.Queue,
		})
	}
	deadWaiters := func(c *crowd, after time.Duration) engine.Held {
		held := hold(t, c.engine, mutex)
		c.many(n, mutex, engine.Queued)
		c.pass(after)
		return held
	}
	for name, one := range map[string]struct {
		most int
		call func(c *crowd) script.Call
	}{
		"dead waiters, a poll": {over, func(c *crowd) script.Call {
			deadWaiters(c, 2*time.Minute)
			live := mutex
			live.ID, live.Queue = "c.live", true
			c.acquire(live)
			return acquire(c, live)
		}},
		"dead waiters, what follows a renewal": {over, func(c *crowd) script.Call {
			deadWaiters(c, 2*time.Minute)
			return c.scripts.Clear(keys)
		}},
		"dead waiters, a release": {over, func(c *crowd) script.Call {
			held := deadWaiters(c, 4*time.Second)
			return c.scripts.Release(keys, script.Release{ID: held.ID, Token: held.Token})
		}},
		"a mark": {sent, func(c *crowd) script.Call {
			held := deadWaiters(c, 0)
			return c.scripts.Release(keys, script.Release{ID: held.ID, Token: held.Token, Mark: time.Hour})
		}},
		"expired readers, a writer": {over, func(c *crowd) script.Call {
			c.many(n, reader, engine.Granted)
			c.pass(time.Minute)
			return acquire(c, writer)
		}},
		"readers that enter": {sent, func(c *crowd) script.Call {
			held := hold(t, c.engine, writer)
			c.many(n, reader, engine.Queued)
			return c.scripts.Release(keys, script.Release{ID: held.ID, Token: held.Token})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			call := one.call(c)
			waiters, parties := c.waiting(), c.waiting()+c.leases()
			must(t, c.rdb.Do(t.Context(), call.Text()...).Err())
			cleared := max(waiters-c.waiting(), parties-c.waiting()-c.leases())
			if t.Logf("cleared %d of %d", cleared, n); cleared <= 0 || cleared > one.most {
				t.Errorf("it cleared %d of %d, want one to %d", cleared, n, one.most)
			}
		})
	}
}

// A batch clears no more than a call that is made alone. It ends there, and the calls that it has not
// reached are made in the next one.
func TestBatchClearsOnePortion(t *testing.T) {
	c := newCrowd(t)
	r := sorts()["mutex"]
	hold(t, c.engine, r)
	c.many(redistest.Scale(2000, 100_000), r, engine.Queued)
	c.pass(2 * time.Minute)
	var polls []script.Call
	for i := range script.MaxBatch {
		live := r
		live.ID = fmt.Sprintf("live.%d", i)
		c.acquire(live)
		polls = append(polls, c.scripts.Acquire(script.KeysOf([]byte(prefix+":{crowd}")), script.Acquire{
			ID: live.ID, Kind: string(r.Kind), Capacity: 1, Weight: 1, TTL: r.TTL, Queue: true,
		}))
	}
	const most = queue.DefaultPortion + 8 // the waiters that a sweep checks first
	c.beside("polls in batches", func() {
		for before := c.waiting(); len(polls) > 0; {
			value, err := c.rdb.Do(t.Context(), c.scripts.Batch(polls).Text()...).Result()
			must(t, err)
			replies, ok := script.ReadBatch(value, len(polls))
			left := c.waiting()
			if !ok || before-left > most {
				t.Fatalf("a batch of %d calls dropped %d waiters, and returned %v", len(polls), before-left, value)
			}
			before, polls = left, polls[len(replies):]
		}
	})
}

// readersAndWriter are a reader, many of which may hold, and a writer that waits for all.
func readersAndWriter() (reader, writer engine.Request) {
	reader = requestOf("crowd", "")
	reader.Kind, reader.Capacity, reader.TTL = engine.KindRW, 1_000_000, 15*time.Second
	writer = reader
	writer.ID, writer.Weight = "c.writer", reader.Capacity
	return reader, writer
}

// Readers that expire at once go in portions; a writer that does not wait gets
// what holds when they have gone.
func TestReadersExpireAtOnce(t *testing.T) {
	c := newCrowd(t)
	n := redistest.Scale(2000, 20_000)
	reader, writer := readersAndWriter()
	c.many(n, reader, engine.Granted)
	c.pass(time.Minute)
	writer.Queue = false
	c.beside(fmt.Sprintf("%d expire", n), func() {
		if a := c.acquire(writer); a.Status != engine.Granted {
			t.Errorf("got %+v", a)
		}
	})
}

// A release lets many readers in, some at a time.
func TestReadersEnterAtOnce(t *testing.T) {
	c := newCrowd(t)
	n := redistest.Scale(2000, 20_000)
	reader, writer := readersAndWriter()
	held := hold(t, c.engine, writer)
	c.many(n, reader, engine.Queued)
	c.beside(fmt.Sprintf("%d enter", n), func() {
		release(t, c.engine, writer.Resource, held)
		c.engine.Settle()
	})
	if snap, err := c.engine.Snapshot(t.Context(), reader.Resource); err != nil || len(snap.Holders) != n || len(snap.Waiters) != 0 {
		t.Errorf("%d hold and %d wait, %v", len(snap.Holders), len(snap.Waiters), err)
	}
}

// So does a mark send them away.
func TestMarkSendsManyAway(t *testing.T) {
	c := newCrowd(t)
	n := redistest.Scale(2000, 20_000)
	r := requestOf("crowd", "c.holder")
	held := hold(t, c.engine, r)
	c.many(n, r, engine.Queued)
	c.beside(fmt.Sprintf("%d sent away", n), func() {
		must(t, c.engine.Release(t.Context(), engine.Release{Resource: r.Resource, Held: held, Mark: time.Hour}))
		c.engine.Settle()
	})
	if left := c.waiting(); left != 0 {
		t.Errorf("%d are in the line", left)
	}
}

// Of a batch of releases one admits more readers than a script does in one call: both succeed, and the
// other readers are admitted behind it.
func TestBatchOfReleasesAdmitsManyReaders(t *testing.T) {
	const readers = 40
	e := open(t, redistest.Start(t).Client())
	reader, writer := readersAndWriter()
	all := []engine.Release{
		{Resource: writer.Resource, Held: hold(t, e, writer)},
		{Resource: named("stock:42"), Held: hold(t, e, request("c1.o"))},
	}
	for i := range readers {
		reader.ID = fmt.Sprintf("c2.%d", i)
		wait(t, e, reader)
	}
	for i, err := range e.ReleaseBatch(t.Context(), all) {
		if err != nil {
			t.Errorf("release %d: %v", i, err)
		}
	}
	e.Settle()
	if s, err := e.Snapshot(t.Context(), writer.Resource); err != nil || len(s.Holders) != readers {
		t.Errorf("%d of %d readers were admitted, %v", len(s.Holders), readers, err)
	}
}

// A script leaves something just after the last call that clears the resource: another call follows.
func TestRestAfterTheLastClearingCallIsCleared(t *testing.T) {
	e := open(t, redistest.Start(t).Client())
	late := &between{run: func() { must(t, e.QueueClear(named("stock:42"))) }}
	late.armed.Store(true)
	e.Own().AddHook(late)
	must(t, e.QueueClear(named("stock:42")))
	if n := e.Settle(); n != 2 {
		t.Errorf("%d calls were made to clear the resource, want 2", n)
	}
}
