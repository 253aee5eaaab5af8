package goredis_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/eitherctx"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A script cache that is flushed, as a restart does, is ridden out by every
// call, also in pipelines.
func TestScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	flush := func() { t.Helper(); must(t, rdb.ScriptFlush(t.Context()).Err()) }
	flush()
	r := request("c1.a")
	r.Client = &engine.Client{ID: "c1", Name: "pipelined"}
	a := hold(t, e, r)
	flush()
	other := r
	other.ID, other.Resource.Name = "c1.b", "other"
	b := hold(t, e, other)
	flush()
	for i, err := range e.Renew(t.Context(), []engine.Renewal{
		{Resource: r.Resource, Held: a, TTL: time.Minute}, {Resource: other.Resource, Held: b, TTL: time.Minute},
	}) {
		if err != nil {
			t.Errorf("renewal %d: %v", i, err)
		}
	}
	flush()
	seen := 0
	for _, err := range e.List(t.Context(), prefix, "*") {
		must(t, err)
		seen++
	}
	if seen != 2 {
		t.Errorf("List found %d resources, want 2", seen)
	}
	flush()
	if snap, err := e.Snapshot(t.Context(), r.Resource); err != nil || len(snap.Holders) != 1 || snap.Holders[0].TTL < 50*time.Second {
		t.Errorf("got %+v, %v", snap, err)
	}
	flush()
	release(t, e, r.Resource, a)
	flush()
	must(t, e.Break(t.Context(), other.Resource, engine.Break{ID: "c1.b"}))
}

// After the data are lost the lease is reported as deleted, and tokens go on
// above the old ones.
func TestFlushAll(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	r := request("c1.a")
	a := hold(t, e, r)
	must(t, rdb.FlushAll(t.Context()).Err())
	wantCause(t, "Renew", renew(e, t.Context(), r.Resource, a), engine.CauseDeleted)
	b := hold(t, e, request("c2.b"))
	if b.Token <= a.Token {
		t.Errorf("got token %d after %d", b.Token, a.Token)
	}
	wantCause(t, "Release", e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: a}), engine.CauseDeleted)
}

// A foreign value under a resource's key is reported at once and left alone.
func TestWrongType(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	must(t, rdb.Set(t.Context(), "p:{stock:42}", "foreign", time.Hour).Err())
	for what, err := range calls(t.Context(), e, request("c1.a")) {
		wantError(t, what, err, engine.ErrDenied)
		if !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("%s: %v does not carry the answer of Redis", what, err)
		}
	}
	for snap, err := range e.List(t.Context(), prefix, "*") {
		t.Errorf("List: %+v, %v, want nothing", snap, err)
	}
	hold(t, e, shared("c1.a", 1))
	must(t, rdb.Del(t.Context(), "p:{pool}:line").Err())
	must(t, rdb.Set(t.Context(), "p:{pool}:line", "foreign", time.Hour).Err())
	_, err := e.Acquire(t.Context(), shared("c1.b", 1))
	wantError(t, "Acquire", err, engine.ErrDenied)
}

// What an ACL forbids is reported at once, by every call.
func TestDeniedByACL(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	as := func(user string, rules ...any) *goredis.Engine {
		must(t, admin.Do(t.Context(), append([]any{"acl", "setuser", user, "on", ">secret"}, rules...)...).Err())
		return open(t, server.Client(func(o *redis.Options) { o.Username, o.Password = user, "secret" }))
	}
	for what, err := range calls(t.Context(), as("noscripts", "~*", "&*", "+@all", "-evalsha", "-eval"), request("c1.a")) {
		wantError(t, what, err, engine.ErrDenied)
	}
	for what, err := range calls(t.Context(), as("nokeys", "~other:*", "&*", "+@all"), request("c1.a")) {
		wantError(t, what, err, engine.ErrDenied)
	}
	for what, err := range calls(t.Context(), as("nohashes", "~*", "&*", "+@all", "-@hash"), request("c1.a")) {
		wantError(t, what, err, engine.ErrDenied)
	}
	deaf := as("deaf", "~*", "resetchannels", "+@all")
	_, err := deaf.Listen(t.Context(), prefix, "c1", func(engine.Wakeup) {})
	wantError(t, "Listen", err, engine.ErrDenied)
	for _, err := range as("noscan", "~*", "&*", "+@all", "-scan").List(t.Context(), prefix, "*") {
		wantError(t, "List", err, engine.ErrDenied)
	}

	// Nobody may publish: grants are made all the same, and polls find them.
	a := hold(t, deaf, request("c1.a"))
	wait(t, deaf, request("c2.b"))
	release(t, deaf, named("stock:42"), a)
	hold(t, deaf, request("c2.b"))
	must(t, deaf.Break(t.Context(), named("stock:42"), engine.Break{ID: "c2.b"}))
}

// The commands that docs/PROTOCOL.md names are enough.
func TestLeastACL(t *testing.T) {
	doc, err := os.ReadFile("../../docs/PROTOCOL.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(doc), "An ACL user needs `")
	list, _, ok := strings.Cut(rest, "`")
	if !ok {
		t.Fatal("docs/PROTOCOL.md has no list of commands")
	}
	rules := []any{"acl", "setuser", "least", "on", ">secret", "~p:*", "resetchannels", "&p:*", "-@all"}
	for _, name := range strings.Fields(list) {
		rules = append(rules, "+"+name)
	}
	server := redistest.Start(t)
	must(t, server.Client().Do(t.Context(), rules...).Err())
	e := open(t, server.Client(func(o *redis.Options) { o.Username, o.Password = "least", "secret" }))
	wakes := listen(t, e, "c2")
	for _, make := range []func(id string) engine.Request{
		request, func(id string) engine.Request { return shared(id, 3) },
	} {
		r := make("c1.a")
		r.Client = &engine.Client{ID: "c1", Name: "least"}
		a := hold(t, e, r)
		wait(t, e, make("c2.b"))
		wait(t, e, make("c2.b"))
		must(t, renew(e, t.Context(), r.Resource, a))
		release(t, e, r.Resource, a)
		next(t, wakes, engine.WakeGrant)
		must(t, e.Break(t.Context(), r.Resource, engine.Break{ID: "c2.b", Force: true}))
		must(t, e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: "c3.c"}, Withdraw: true}))
		brief := make("c1.d")
		brief.TTL = time.Millisecond
		hold(t, e, brief)
		if _, err := e.Acquire(t.Context(), make("c3.c")); !errors.Is(err, engine.ErrEnded) {
			t.Errorf("got error %v, want ErrEnded", err)
		}
	}
	other := request("c1.e")
	other.Resource.Name = "other"
	hold(t, e, other)
	for snap, err := range e.List(t.Context(), prefix, "*") {
		if err != nil || len(snap.Holders) != 1 {
			t.Errorf("got %+v, %v", snap, err)
		}
	}
}

func TestWrongPassword(t *testing.T) {
	server := redistest.Start(t, redistest.WithPassword("right"))
	for _, password := range []string{"", "wrong"} {
		e := open(t, server.Client(func(o *redis.Options) { o.Password = password }))
		for what, err := range calls(t.Context(), e, request("c1.a")) {
			wantError(t, what+" with password "+password, err, engine.ErrDenied)
		}
		_, err := e.Listen(t.Context(), prefix, "c1", func(engine.Wakeup) {})
		wantError(t, "Listen", err, engine.ErrDenied)
	}
}

// A server that hangs cannot keep a call longer than its ctx, whether that ends
// by a deadline or by a cancellation.
func TestHungServer(t *testing.T) {
	t.Parallel()
	stalls := redistest.WatchStalls(t)
	server := redistest.Start(t)
	e := open(t, server.Client())
	hold(t, e, request("c1.warm"))
	must(t, renew(e, t.Context(), named("stock:42"), engine.Held{ID: "c1.warm"}))
	server.Pause()
	defer server.Resume()
	why := errors.New("the caller went home")
	for name, ends := range map[string]func() (context.Context, context.CancelFunc){
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 50*time.Millisecond)
		},
		"cancel": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(context.Background())
			timer := time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
			return ctx, func() { timer.Stop(); cancel(nil) }
		},
		"close": func() (context.Context, context.CancelFunc) { // as a call of a client that is closed
			caller, cancel := context.WithCancel(context.Background())
			life, end := context.WithTimeout(context.Background(), 50*time.Millisecond)
			ctx := eitherctx.New(caller, life)
			return ctx, func() { ctx.Stop(); end(); cancel() }
		},
	} {
		for _, op := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := e.Acquire(ctx, request("c1.a")); return err },
			func(ctx context.Context) error { return renew(e, ctx, named("stock:42"), engine.Held{ID: "c1.a"}) },
			func(ctx context.Context) error {
				return e.Release(ctx, engine.Release{Resource: named("stock:42"), Held: engine.Held{ID: "c1.a"}})
			},
			func(ctx context.Context) error { return e.Break(ctx, named("stock:42"), engine.Break{ID: "c1.a"}) },
			func(ctx context.Context) error { _, err := e.Snapshot(ctx, named("stock:42")); return err },
			func(ctx context.Context) error {
				for _, err := range e.List(ctx, prefix, "*") {
					return err
				}
				return nil
			},
			func(ctx context.Context) error {
				_, err := e.Listen(ctx, prefix, "c9", func(engine.Wakeup) {})
				return err
			},
		} {
			ctx, cancel := ends()
			start := time.Now()
			err := op(ctx)
			stalls.Within(t, start, time.Second, name+": a call")
			wantError(t, name, err, engine.ErrUnavailable, ctx.Err(), context.Cause(ctx))
			cancel()
		}
	}
	e.Leave("c9")
}

// A reply that is lost is an unknown outcome, reported at once and not resent
// by go-redis; the same request sent again finds what the first one did.
func TestLostReply(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	e := open(t, rdb)
	release(t, e, named("stock:42"), hold(t, e, request("c1.warm"))) // Redis knows the scripts
	r := request("c1.lost")
	point := proxy.LoseReply("c1.lost")
	_, err := e.Acquire(t.Context(), r)
	wantError(t, "Acquire", err, engine.ErrUnavailable)
	point.RequireHit(t)
	first, err := open(t, server.Client()).Snapshot(t.Context(), r.Resource)
	if err != nil || len(first.Holders) != 1 {
		t.Fatalf("the request should have been granted: %+v, %v", first, err)
	}
	held := hold(t, e, r)
	if held.Token != first.Holders[0].Token {
		t.Errorf("the repeated request got token %d, want %d", held.Token, first.Holders[0].Token)
	}
	give := engine.Release{Resource: r.Resource, Held: held}
	point = proxy.LoseReply("c1.lost")
	before := commandCounts(t, server.Client())["evalsha"]
	wantError(t, "Release", e.Release(t.Context(), give), engine.ErrUnavailable)
	point.RequireHit(t)
	if n := commandCounts(t, server.Client())["evalsha"] - before; n != 1 {
		t.Errorf("one call sent %d commands", n)
	}
	must(t, e.Release(t.Context(), give))
}

// A copy of a request that was given up may arrive late; it must not lock.
func TestLateCopyOfAWithdrawnRequest(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	slow, e := open(t, rdb), open(t, server.Client())
	must(t, rdb.Ping(t.Context()).Err())
	proxy.Blackhole(redistest.ToServer)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r := request("c1.late")
	_, err := slow.Acquire(ctx, r)
	wantError(t, "Acquire", err, engine.ErrUnavailable, context.DeadlineExceeded)
	must(t, e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID}, Withdraw: true}))
	before := commandCounts(t, server.Client())["evalsha"]
	proxy.Heal()
	for commandCounts(t, server.Client())["evalsha"] == before { // until the copy has arrived
		if t.Context().Err() != nil {
			t.Fatal("the late copy never came")
		}
	}
	hold(t, e, request("c2.b"))
}

// Connections that went stale in the pool while the server restarted cost no
// error.
func TestRestartWithIdleConnections(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.Client())
	hold(t, e, request("c1.a"))
	must(t, renew(e, t.Context(), named("stock:42"), engine.Held{ID: "c1.a"}))
	server.Restart()
	hold(t, e, request("c2.b"))
	must(t, renew(e, t.Context(), named("stock:42"), engine.Held{ID: "c2.b"}))
}

// All connections of the caller's pool are taken: renewals, wake-ups and
// releases go on.
func TestExhaustedPool(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(func(o *redis.Options) { o.PoolSize, o.MaxActiveConns = 1, 1 })
	e := open(t, rdb)
	held := hold(t, e, request("c1.a"))
	conn := rdb.Conn()
	defer conn.Close()
	must(t, conn.Ping(t.Context()).Err()) // takes the only connection
	wakes := listen(t, e, "c2")
	other := open(t, server.Client())
	wait(t, other, request("c2.b"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	must(t, renew(e, ctx, named("stock:42"), held))
	must(t, e.Release(ctx, engine.Release{Resource: named("stock:42"), Held: held}))
	if w := next(t, wakes, engine.WakeGrant); w.ID != "c2.b" {
		t.Errorf("got %+v", w)
	}
}

// A server with all the clients that it takes gets renewals and releases over the connection that the
// caller's client has.
func TestFullServerRenewsAndReleases(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client(func(o *redis.Options) { o.PoolSize, o.PipelinePoolSize = 1, -1 })
	e := open(t, rdb)
	held, other := hold(t, e, request("c1.a")), hold(t, e, shared("c1.b", 1))
	must(t, rdb.ConfigSet(t.Context(), "maxclients", "1").Err())
	must(t, renew(e, t.Context(), named("stock:42"), held))
	for i, err := range e.ReleaseBatch(t.Context(), []engine.Release{
		{Resource: named("stock:42"), Held: held}, {Resource: named("pool"), Held: other},
	}) {
		if err != nil {
			t.Errorf("release %d: %v", i, err)
		}
	}
}

// A server without memory refuses new locks as unavailable; those who hold keep
// what they have and can give it back.
func TestOutOfMemory(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	held, other := hold(t, e, request("c1.a")), hold(t, e, shared("c1.b", 1))
	must(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err := e.Acquire(t.Context(), request("c2.c"))
	wantError(t, "Acquire", err, engine.ErrUnavailable)
	for i, err := range e.Renew(t.Context(), []engine.Renewal{
		{Resource: named("stock:42"), Held: held, TTL: time.Hour}, {Resource: named("pool"), Held: other, TTL: time.Hour},
	}) {
		if err != nil {
			t.Errorf("renewal %d: %v", i, err)
		}
	}
	release(t, e, named("stock:42"), held)
	release(t, e, named("pool"), other)
}

// What is wrong with New's arguments comes back from every call, never as a
// panic.
func TestBadArguments(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	var none *redis.Client
	for what, e := range map[string]*goredis.Engine{
		"nil":           goredis.New(nil),
		"nil client":    goredis.New(none, nil),
		"bad retention": goredis.New(rdb, goredis.WithRetention(time.Second)),
	} {
		for call, err := range calls(t.Context(), e, request("c1.a")) {
			wantError(t, what+": "+call, err, engine.ErrDenied)
		}
		_, err := e.Listen(t.Context(), prefix, "c1", func(engine.Wakeup) {})
		wantError(t, what+": Listen", err, engine.ErrDenied)
		for _, err := range e.List(t.Context(), prefix, "*") {
			wantError(t, what+": List", err, engine.ErrDenied)
		}
		e.Leave("c1")
	}
	e := open(t, rdb)
	for _, res := range []engine.Resource{{Prefix: "{p}", Name: "a"}, {Prefix: "p", Name: ""}} {
		r := request("c1.a")
		r.Resource = res
		for call, err := range calls(t.Context(), e, r) {
			wantError(t, call, err, engine.ErrDenied)
		}
	}
	for what, change := range map[string]func(*engine.Request){
		"weight 0":   func(r *engine.Request) { r.Weight = 0 },
		"capacity 0": func(r *engine.Request) { r.Capacity = 0 },
		"no ID":      func(r *engine.Request) { r.ID = "" },
		"TTL 0":      func(r *engine.Request) { r.TTL = 0 },
		"reserve":    func(r *engine.Request) { r.Reserve = 1 << 40 },
	} {
		r := request("c1.a")
		change(&r)
		_, err := e.Acquire(t.Context(), r)
		wantError(t, what, err, engine.ErrDenied)
	}
}

// A closed redis client is reported as such, and not retried for ever.
func TestClosedClient(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	must(t, rdb.Close())
	_, err := e.Acquire(t.Context(), request("c1.a"))
	wantError(t, "Acquire", err, engine.ErrDenied, redis.ErrClosed)
	if err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("%v does not say that the client is closed", err)
	}
}

// Nobody is there: unavailable, at once.
func TestNoServer(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.Client(func(o *redis.Options) { o.DialerRetries = 1 }))
	server.Kill()
	for what, err := range calls(t.Context(), e, request("c1.a")) {
		wantError(t, what, err, engine.ErrUnavailable)
	}
	_, err := e.Listen(t.Context(), prefix, "c1", func(engine.Wakeup) {})
	wantError(t, "Listen", err, engine.ErrUnavailable)
}

// Now returns within the caller's ctx, too.
func TestNowInTrouble(t *testing.T) {
	stalls := redistest.WatchStalls(t)
	server := redistest.Start(t)
	e := open(t, server.Client())
	if _, err := e.Now(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := e.Now(ctx)
	wantError(t, "Now", err, engine.ErrUnavailable, context.DeadlineExceeded)
	stalls.Within(t, start, time.Second, "Now")
	server.Resume()
	_, err = goredis.New(nil).Now(t.Context())
	wantError(t, "Now without a client", err, engine.ErrDenied)
}
