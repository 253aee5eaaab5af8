package goredis_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Every key has a TTL after every kind of operation.
func TestEveryKeyExpires(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.Client())
	ctx := context.Background()
	check := func() { t.Helper(); server.RequireTTLs(t) }

	r := request("c1.a")
	r.Client = &engine.Client{ID: "c1", Name: "test", Host: "here", PID: 1}
	a := hold(t, e, r)
	check()
	wait(t, e, request("c2.b"))
	check()
	must(t, renew(e, ctx, r.Resource, a))
	check()
	release(t, e, r.Resource, a) // b is granted
	check()
	must(t, e.Break(ctx, r.Resource, engine.Break{ID: "c2.b"}))
	check()
	must(t, e.Release(ctx, engine.Release{Resource: r.Resource, Held: engine.Held{ID: "c3.c"}, Withdraw: true}))
	check()
	must(t, e.Release(ctx, engine.Release{Resource: named("never used"), Held: engine.Held{ID: "c3.c"}, Withdraw: true}))
	check()
	s1, s2 := hold(t, e, shared("c1.s", 1)), hold(t, e, shared("c1.t", 2))
	check()
	wait(t, e, shared("c2.u", 3))
	check()
	release(t, e, shared("", 0).Resource, s1)
	check()
	release(t, e, shared("", 0).Resource, s2) // u is granted
	check()
	marked := request("c1.m")
	marked.Resource.Name, marked.Mark = "marks", time.Hour
	must(t, e.Release(ctx, engine.Release{Resource: marked.Resource, Held: hold(t, e, marked), Mark: 2 * time.Hour}))
	check()
	ballot := request("c1.n")
	ballot.Resource.Name, ballot.Ballot = "ballots", 1<<53
	if _, err := e.Acquire(ctx, ballot); err != engine.ErrBallot {
		t.Errorf("got error %v, want ErrBallot", err)
	}
	check()
}

// Keys that somebody deletes by hand, one by one, come back with a TTL, and
// what is left works.
func TestDeletedKeys(t *testing.T) {
	for gone, cause := range map[string]engine.Cause{
		"p:{pool}":      engine.CauseDeleted,
		"p:{pool}:line": engine.CauseReleased, // the core knows the token, nothing else
	} {
		t.Run(gone, func(t *testing.T) {
			server := redistest.Start(t)
			rdb := server.Client()
			e := open(t, rdb)
			a := hold(t, e, shared("c1.a", 2))
			wait(t, e, shared("c1.b", 3))
			must(t, rdb.Del(t.Context(), gone).Err())
			wantCause(t, "Renew", renew(e, t.Context(), named("pool"), a), cause)
			b := hold(t, e, shared("c1.c", 3)) // a and b do not count any more
			server.RequireTTLs(t)
			wait(t, e, shared("c1.d", 1))
			release(t, e, named("pool"), b)
			server.RequireTTLs(t)
			if snap, err := e.Snapshot(t.Context(), named("pool")); err != nil || len(snap.Holders) != 1 || snap.Holders[0].ID != "c1.d" {
				t.Errorf("got %+v, %v", snap, err)
			}
		})
	}
}

// The expiry of a resource is never moved back: a request with a short TTL must
// not shorten the life of a long lease.
func TestExpiryIsNeverShortened(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	for _, r := range []engine.Request{request("c1.a"), shared("c1.a", 3)} {
		long := r
		long.TTL = 24 * time.Hour
		held := hold(t, e, long)
		brief := r
		brief.ID, brief.TTL = "c1.b", 100*time.Millisecond
		wait(t, e, brief)
		wait(t, e, brief)
		must(t, e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: "c1.b"}, Withdraw: true}))
		must(t, renew(e, t.Context(), r.Resource, held))
	}
	keys, err := server.Keys(t.Context())
	must(t, err)
	for _, k := range keys {
		if k.TTL < 24*time.Hour {
			t.Errorf("key %q lives for %v only", k.Name, k.TTL)
		}
	}
	if len(keys) != 4 {
		t.Errorf("got %d keys, want 4: %v", len(keys), keys)
	}
}

// Any name works, and all keys of a resource share one hash tag.
func TestNames(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	names := []string{
		"a", "a b", "%", "%25", "{", "}", "{}", "}{", "{a}b{c}", "a{b", "%7B", "a\nb", "\x00", "*", "[a]", `\`, "日本語",
		strings.Repeat("x", 512), strings.Repeat("{", 512), ":", ":line", "}:line", "a:b:c",
	}
	for _, name := range names {
		r := request("c1.a")
		r.Resource = named(name)
		hold(t, e, r)
		wait(t, e, func() engine.Request { r.ID = "c1.b"; return r }())
		snap, err := e.Snapshot(t.Context(), named(name))
		if err != nil || len(snap.Holders) != 1 || len(snap.Waiters) != 1 || snap.Resource.Name != name {
			t.Errorf("%q: %+v, %v", name, snap, err)
		}
		found := 0
		for snap, err := range e.List(t.Context(), prefix, escapePattern(name)) {
			if err != nil || snap.Resource.Name != name {
				t.Errorf("List %q: %+v, %v", name, snap, err)
			}
			found++
		}
		if found != 1 {
			t.Errorf("List %q found %d", name, found)
		}
	}
	keys, err := server.Keys(t.Context())
	must(t, err)
	if len(keys) != 2*len(names) {
		t.Errorf("got %d keys for %d names", len(keys), len(names))
	}
	for _, k := range keys {
		if strings.Count(k.Name, "{") != 1 || strings.Count(k.Name, "}") != 1 {
			t.Errorf("key %q has more than one tag", k.Name)
		}
	}
}

func escapePattern(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`).Replace(name)
}

// Tokens come back exactly, though Lua's tostring rounds to 14 digits.
func TestTokensAreExact(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.Client())
	r := request("c1.a")
	r.Ballot = uint64(time.Now().Add(time.Hour).UnixMicro())/1000*1000 + 7 // above 2^50
	r.Reserve = 3
	held := hold(t, e, r)
	if held.Token != r.Ballot {
		t.Fatalf("got token %d, want %d", held.Token, r.Ballot)
	}
	for i := range uint64(50) { // the clock is behind, so tokens count up
		release(t, e, r.Resource, held)
		r.ID, r.Ballot = "c1.a"+string(rune('a'+i)), 0
		next := hold(t, e, r)
		if next.Token != held.Token+4 {
			t.Fatalf("got token %d after %d and 3 reserved ones", next.Token, held.Token)
		}
		snap, err := e.Snapshot(t.Context(), r.Resource)
		if err != nil || snap.Holders[0].Token != next.Token || snap.Token != next.Token+3 {
			t.Fatalf("got %+v, %v, want token %d", snap, err, next.Token)
		}
		held = next
	}
}

// The description of a client is stored once, with its first request, and
// looked up once by others.
func TestClientsAreDescribedOnce(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e, other := open(t, rdb), open(t, rdb)
	who := engine.Client{ID: "c1", Name: "stock", Host: "node-1", PID: 42}
	r := request("c1.a")
	r.Client = &who
	held := hold(t, e, r)
	release(t, e, r.Resource, held)
	r.ID = "c1.b"
	hold(t, e, r)
	try := request("c2.a")
	try.Queue = false
	for range 3 {
		a, err := other.Acquire(t.Context(), try)
		if err != nil || a.Status != engine.Busy || a.Holder.Client != who {
			t.Errorf("got %+v, %v, want the holder %+v", a, err, who)
		}
	}
	stats := commandCounts(t, rdb)
	if stats["set"] != 1 || stats["get"] != 1 {
		t.Errorf("got %d SET and %d GET, want one each", stats["set"], stats["get"])
	}
}

func commandCounts(t *testing.T, rdb *redis.Client) map[string]int {
	t.Helper()
	counts := map[string]int{}
	info, err := rdb.InfoMap(t.Context(), "commandstats").Result()
	must(t, err)
	for name, text := range info["Commandstats"] {
		n, _, _ := strings.Cut(strings.TrimPrefix(text, "calls="), ",")
		for _, c := range n {
			counts[strings.TrimPrefix(name, "cmdstat_")] = counts[strings.TrimPrefix(name, "cmdstat_")]*10 + int(c-'0')
		}
	}
	return counts
}

// wantCommands compares what the server has executed since its counts were reset, but for what that and a new connection take.
func wantCommands(t *testing.T, rdb *redis.Client, what string, want map[string]int) {
	t.Helper()
	got := commandCounts(t, rdb)
	for _, command := range []string{"config|resetstat", "config", "info", "hello", "client|setinfo"} {
		delete(got, command)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s took %v, want %v", what, got, want)
	}
}

// The fast paths of a shared resource notice a line that was deleted by hand:
// its leases are lost, and the new one makes it again, with a TTL.
func TestDeletedLineOfAnOpenResource(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	r := request("c1.a")
	r.Resource, r.Kind, r.Capacity = named("pool"), engine.KindRW, 100
	lost := hold(t, e, r)
	for i, next := range []string{"c1.b", "c1.c"} {
		must(t, rdb.Del(t.Context(), "p:{pool}:line").Err())
		if i == 1 {
			wantCause(t, "Renew", renew(e, t.Context(), r.Resource, lost), engine.CauseReleased)
		}
		r.ID = next
		held := hold(t, e, r)
		server.RequireTTLs(t)
		snap, err := e.Snapshot(t.Context(), r.Resource)
		if err != nil || len(snap.Holders) != 1 || snap.Holders[0].ID != next {
			t.Fatalf("got %+v, %v, want %s alone", snap, err, next)
		}
		lost = held
	}
	must(t, rdb.Del(t.Context(), "p:{pool}:line").Err())
	release(t, e, r.Resource, lost) // it counts as released
	writer := r
	writer.ID, writer.Weight = "c1.w", 100
	hold(t, e, writer)
	server.RequireTTLs(t)
}

// The fast paths of a shared resource touch what they must and no more.
func TestCommandsOfASharedPair(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	pair := func(id string) { t.Helper(); release(t, e, named("pool"), hold(t, e, shared(id, 2))) }
	pair("c1.first")
	must(t, rdb.ConfigResetStat(t.Context()).Err())
	for i := range 10 {
		pair("c1." + string(rune('a'+i)))
	}
	wantCommands(t, rdb, "ten pairs", map[string]int{"evalsha": 20, "time": 20, "hmget": 20, "zadd": 10, "hset": 10, "hget": 10, "zrem": 10, "hdel": 10, "hincrby": 10})
}

// A process in which several want a resource that no other process wants yields its lease to itself, turn after turn. That takes
// the fast path also if the client does not listen, as one that never waits does not.
func TestCommandsOfAYieldToOneself(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	r := request("c1.first")
	held := hold(t, e, r)
	must(t, rdb.ConfigResetStat(t.Context()).Err())
	for i := range 10 {
		r.ID, r.Yields = "c1."+string(rune('a'+i)), held
		held = hold(t, e, r)
	}
	wantCommands(t, rdb, "ten yields", map[string]int{"evalsha": 10, "time": 10, "hmget": 20, "hset": 10})
}

// A resource is open until the first of its leases ends, whichever was granted last (docs/PROTOCOL.md).
func TestOpenUntilTheFirstLeaseEnds(t *testing.T) {
	rdb := redistest.Start(t).Client()
	e := open(t, rdb)
	long, short := shared("c1.s", 1), shared("c1.t", 1)
	long.TTL, short.TTL = time.Minute, time.Second
	for _, id := range []string{"c1.s", "c1.u"} { // the first takes the slow path
		long.ID = id
		hold(t, e, long)
	}
	hold(t, e, short)
	until, err := rdb.HGet(t.Context(), prefix+":{"+long.Resource.Name+"}", "deadline").Int64()
	must(t, err)
	if left := time.Until(time.UnixMicro(until)); left > short.TTL {
		t.Errorf("it is open for %v, and a lease ends in %v", left, short.TTL)
	}
}
