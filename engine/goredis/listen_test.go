package goredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestWakeups(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.Client())
	wakes := listen(t, e, "c2")
	a := hold(t, e, request("c1.a"))
	wait(t, e, request("c2.b"))
	release(t, e, named("stock:42"), a)
	w := next(t, wakes, engine.WakeGrant)
	if w.ID != "c2.b" || w.Token <= a.Token || w.TTL != engine.ClaimWindow {
		t.Errorf("got %+v after token %d", w, a.Token)
	}
	must(t, e.Break(t.Context(), named("stock:42"), engine.Break{ID: "c2.b"}))
	if w := next(t, wakes, engine.WakeBroken); w.ID != "c2.b" {
		t.Errorf("got %+v", w)
	}
}

// After the server was away, in whatever way, the stream is back soon, says so,
// and works.
func TestListenRecovers(t *testing.T) {
	stalls := redistest.WatchStalls(t)
	works := func(t *testing.T, e engine.Engine, wakes <-chan engine.Wakeup, name string) {
		t.Helper()
		r := request("c1.a")
		r.Resource.Name = name
		a := hold(t, e, r)
		r.ID = "c2.b"
		wait(t, e, r)
		release(t, e, r.Resource, a)
		next(t, wakes, engine.WakeGrant)
	}
	soon := func(t *testing.T, wakes <-chan engine.Wakeup) {
		t.Helper()
		start := time.Now()
		next(t, wakes, engine.Resync)
		stalls.Within(t, start, 1500*time.Millisecond, "the stream's return")
	}
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		e := open(t, server.Client())
		wakes := listen(t, e, "c2")
		server.Kill()
		time.AfterFunc(700*time.Millisecond, server.Restart)
		next(t, wakes, engine.Resync)
		works(t, e, wakes, "a")
	})
	t.Run("cut", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
		t.Cleanup(func() { _ = rdb.Close() })
		e := open(t, rdb)
		wakes := listen(t, e, "c2")
		for range 3 {
			proxy.Cut()
			soon(t, wakes)
		}
		works(t, open(t, server.Client()), wakes, "a")
	})
	t.Run("killed by an operator", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		e := open(t, server.Client())
		wakes := listen(t, e, "c2")
		must(t, server.Client().Do(t.Context(), "client", "kill", "type", "pubsub").Err())
		soon(t, wakes)
		works(t, e, wakes, "a")
	})
	t.Run("silent loss", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
		t.Cleanup(func() { _ = rdb.Close() })
		e := open(t, rdb)
		wakes := listen(t, e, "c2")
		proxy.Blackhole(redistest.ToServer)
		// By then the connection has been given up; the old one would work again
		// without a Resync.
		time.AfterFunc(7*time.Second, proxy.Heal)
		next(t, wakes, engine.Resync)
		works(t, open(t, server.Client()), wakes, "a")
	})
}

// Close returns at once, also while the server hangs or is away, and nothing is
// delivered afterwards.
func TestCloseOfAListener(t *testing.T) {
	stalls := redistest.WatchStalls(t)
	server := redistest.Start(t)
	for name, trouble := range map[string]func(){"healthy": func() {}, "hung": server.Pause, "dead": server.Kill} {
		e := open(t, server.Client())
		closed := false
		l, err := e.Listen(context.Background(), prefix, "c1", func(engine.Wakeup) {
			if closed {
				t.Error("delivered after Close")
			}
		})
		must(t, err)
		trouble()
		start := time.Now()
		must(t, l.Close())
		closed = true
		must(t, l.Close()) // twice is fine
		stalls.Within(t, start, time.Second, name+": Close")
		e.Leave("c1")
		if name == "hung" {
			server.Resume()
		}
		if name == "dead" {
			server.Restart()
		}
	}
}

// Own connections are closed with the last client, and opened again if needed.
func TestLeaveAndComeBack(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	connections := func() int {
		t.Helper()
		list, err := rdb.ClientList(t.Context()).Result()
		must(t, err)
		n := 0
		for _, c := range list {
			if c == '\n' {
				n++
			}
		}
		return n
	}
	before := connections()
	for range 2 {
		r := request("c1.a")
		r.Client = &engine.Client{ID: "c1"}
		held := hold(t, e, r)
		must(t, renew(e, t.Context(), r.Resource, held))
		r.Client = &engine.Client{ID: "c2"}
		hold(t, e, r)
		e.Leave("c2")
		must(t, renew(e, t.Context(), r.Resource, held))
		e.Leave("c1")
		release(t, e, r.Resource, held)
		for connections() > before+1 && t.Context().Err() == nil { // one is the pipeline pool's
		}
	}
}
