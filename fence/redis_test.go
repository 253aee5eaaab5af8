package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestRedisOrder(t *testing.T) {
	s, rdb := openRedis(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	requireNil(t, g.Claim(ctx, stock, 7))
	requireNil(t, g.Claim(ctx, stock, 7)) // the same holder again
	requireStale(t, g.Claim(ctx, stock, 6), 6, 7)
	requireNil(t, g.Set(ctx, stock, 8, stock, "a", 0)) // a write claims
	requireStale(t, g.Set(ctx, stock, 7, stock, "b", 0), 7, 8)
	if _, err := g.Get(ctx, stock, 7, stock); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("a stale read: %v", err)
	}
	got, err := g.Get(ctx, stock, 9, stock) // so does a read
	requireNil(t, err)
	if got != "a" {
		t.Fatalf("read %q", got)
	}
	requireStale(t, g.Claim(ctx, stock, 8), 8, 9)
	requireNil(t, g.Claim(ctx, "another", 1))
	if ttl := rdb.PTTL(ctx, stock).Val(); ttl != -1 {
		t.Errorf("the data's TTL is %v: it is not the guard's business", ttl)
	}
	requireNil(t, g.Set(ctx, stock, 9, stock, "c", time.Minute))
	s.RequireTTLs(t)
}

// Adjacent tokens above 2^52 must not be taken for equal.
func TestRedisLargeTokens(t *testing.T) {
	_, rdb := openRedis(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	requireNil(t, g.Claim(ctx, stock, fence.MaxToken-1))
	requireNil(t, g.Claim(ctx, stock, fence.MaxToken))
	requireStale(t, g.Claim(ctx, stock, fence.MaxToken-1), fence.MaxToken-1, fence.MaxToken)
	requireIs(t, g.Claim(ctx, stock, fence.MaxToken+1), fence.ErrToken)
	requireIs(t, g.Claim(ctx, stock, 0), fence.ErrToken)
}

func TestRedisScript(t *testing.T) {
	server, rdb := openRedis(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	// A script may use the names of the claim's variables, and gets only its own arguments.
	script := fence.NewScript(`local n = redis.call('INCRBY', KEYS[1], ARGV[1])
return {n, #KEYS, #ARGV, KEYS[2], tostring(rawget(_G, 'token')), tostring(rawget(_G, 'guard'))}`)
	got, err := g.Do(ctx, stock, 3, script, []string{stock, "{" + stock + "}:b"}, 5, "x").Slice()
	requireNil(t, err)
	if want := "[5 2 2 {stock:42}:b nil nil]"; fmt.Sprint(got) != want {
		t.Fatalf("got %v, want %s", got, want)
	}
	requireStale(t, g.Do(ctx, stock, 2, script, []string{stock, "y"}, 5, "x").Err(), 2, 3)
	if n, _ := rdb.Get(ctx, stock).Int(); n != 5 {
		t.Fatalf("a refused script ran: %d", n)
	}
	requireIs(t, g.Do(ctx, stock, 3, fence.NewScript("return false"), nil).Err(), redis.Nil)
	requireIs(t, g.Do(ctx, stock, 3, nil, nil).Err(), fence.ErrInvalid)

	sheBang := fence.NewScript("#!lua flags=allow-stale\nreturn 7")
	if n, err := g.Do(ctx, stock, 3, sheBang, nil).Int(); server.Since(7, 0) && (n != 7 || err != nil) {
		t.Fatalf("with a first line of flags: %d, %v", n, err)
	} else if !server.Since(7, 0) && (err == nil || !strings.Contains(err.Error(), "compiling")) {
		t.Fatalf("with a first line of flags, which Redis 6 does not know: %d, %v", n, err)
	}
	// The script's error is returned, with the line number in the script.
	err = g.Do(ctx, stock, 3, fence.NewScript("\nerror('mine')"), nil).Err()
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), ":2: mine") {
		t.Fatalf("got %v", err)
	}
}

func TestRedisCommand(t *testing.T) {
	_, rdb := openRedis(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	if n, err := g.Command(ctx, stock, 1, "HSET", stock, "left", 9, "sold", 1).Int(); n != 2 || err != nil {
		t.Fatalf("HSET: %d, %v", n, err)
	}
	if s, err := g.Command(ctx, stock, 1, "HGET", stock, "left").Text(); s != "9" || err != nil {
		t.Fatalf("HGET: %q, %v", s, err)
	}
	err := g.Command(ctx, stock, 1, "INCR", stock).Err()
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Fatalf("INCR of a hash: %v", err)
	}
	if _, err := g.Get(ctx, stock, 1, "{"+stock+"}:none"); !errors.Is(err, redis.Nil) {
		t.Fatalf("GET of nothing: %v", err)
	}
}

func TestRedisRetention(t *testing.T) {
	s, rdb := openRedis(t)
	ctx := t.Context()
	const guard = "fence:{" + stock + "}"
	require := func(what string, low, high time.Duration) {
		t.Helper()
		if ttl := rdb.PTTL(ctx, guard).Val(); ttl < low || ttl > high {
			t.Fatalf("%s: TTL %v, want %v to %v", what, ttl, low, high)
		}
	}
	requireNil(t, fence.NewRedis(rdb).Claim(ctx, stock, 5))
	require("by default", fence.DefaultRetention-time.Minute, fence.DefaultRetention)
	requireNil(t, fence.NewRedis(rdb, fence.WithRetention(time.Hour)).Claim(ctx, stock, 6))
	require("a shorter one", fence.DefaultRetention-time.Minute, fence.DefaultRetention)
	requireNil(t, rdb.PExpire(ctx, guard, 10*time.Second).Err())
	requireStale(t, fence.NewRedis(rdb).Claim(ctx, stock, 5), 5, 6)
	require("after a refusal", fence.DefaultRetention-time.Minute, fence.DefaultRetention)
	s.RequireTTLs(t)
	requireNil(t, fence.NewRedis(rdb, fence.WithoutExpiry()).Claim(ctx, stock, 6))
	require("for ever", -1, -1)
	requireNil(t, fence.NewRedis(rdb).Claim(ctx, stock, 7))
	require("for ever stays", -1, -1)
	requireStale(t, fence.NewRedis(rdb).Claim(ctx, stock, 6), 6, 7)
}

func TestRedisRefusesOptions(t *testing.T) {
	_, rdb := openRedis(t)
	ctx := t.Context()
	for name, g := range map[string]*fence.Redis{
		"no client":  fence.NewRedis(nil),
		"retention":  fence.NewRedis(rdb, fence.WithRetention(time.Second)),
		"prefix":     fence.NewRedis(rdb, fence.WithPrefix("{x}")),
		"no prefix":  fence.NewRedis(rdb, fence.WithPrefix("")),
		"nil option": fence.NewRedis(rdb, nil),
	} {
		if err := g.Claim(ctx, stock, 1); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g := fence.NewRedis(rdb)
	for _, name := range []string{"", "\xff", strings.Repeat("x", fence.MaxNameLen+1), "a\x00"} {
		requireIs(t, g.Claim(ctx, name, 1), fence.ErrInvalid)
	}
	requireIs(t, g.Set(ctx, stock, 1, stock, 1, time.Microsecond), fence.ErrInvalid)
}

// A guard key with a value of another type is an error and is not overwritten.
func TestRedisForeignKey(t *testing.T) {
	_, rdb := openRedis(t)
	ctx := t.Context()
	requireNil(t, rdb.Set(ctx, "fence:{"+stock+"}", "mine", 0).Err())
	if err := fence.NewRedis(rdb).Claim(ctx, stock, 1); err == nil || !strings.Contains(err.Error(), "NOTAGUARD") {
		t.Fatalf("got %v", err)
	}
	requireNil(t, fence.NewRedis(rdb, fence.WithPrefix("app:fence")).Claim(ctx, stock, 1))
}

// A script that counts must not count twice because its reply was lost.
func TestRedisSendsOnce(t *testing.T) {
	s, rdb := openRedis(t)
	ctx := t.Context()
	proxy := redistest.NewProxy(t, s.Addr())
	far := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	defer far.Close()
	g := fence.NewRedis(far)
	requireNil(t, g.Command(ctx, stock, 1, "INCR", stock).Err()) // loads the script
	lost := proxy.LoseReply("INCR")
	if err := g.Command(ctx, stock, 1, "INCR", stock).Err(); err == nil || errors.Is(err, fence.ErrStale) {
		t.Fatalf("a lost reply: %v", err)
	}
	lost.RequireHit(t)
	if n, _ := rdb.Get(ctx, stock).Int(); n != 2 {
		t.Fatalf("counted to %d, want 2", n)
	}
}

func TestRedisHung(t *testing.T) {
	stalls := redistest.WatchStalls(t)
	s, rdb := openRedis(t)
	g := fence.NewRedis(rdb)
	requireNil(t, g.Claim(t.Context(), stock, 1))
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	requireIs(t, g.Claim(ctx, stock, 1), context.DeadlineExceeded)
	stalls.Within(t, start, time.Second, "Claim")
	requireIs(t, g.Claim(ctx, stock, 1), context.DeadlineExceeded)
}
