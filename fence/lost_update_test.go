package fence_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/fence"
)

// Two holders read, and then both write in the order of their tokens. If the token is
// checked on writes only, both succeed, and one update is lost.
func TestRedisWriteOnlyFenceLosesAnUpdate(t *testing.T) {
	_, rdb := openRedis(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	requireNil(t, rdb.Set(ctx, stock, 10, 0).Err())
	first, _ := rdb.Get(ctx, stock).Int()  // holder 1, then paused past its lease
	second, _ := rdb.Get(ctx, stock).Int() // holder 2
	requireNil(t, g.Set(ctx, stock, 1, stock, first+1, 0))
	requireNil(t, g.Set(ctx, stock, 2, stock, second+1, 0))
	if n, _ := rdb.Get(ctx, stock).Int(); n != 11 {
		t.Fatalf("%d: this is to show the hole, which is 11 after two updates", n)
	}
}

func TestRedisClaimOnFirstContactIsExact(t *testing.T) {
	_, rdb := openRedis(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	requireNil(t, rdb.Set(ctx, stock, 10, 0).Err())
	requireNil(t, g.Claim(ctx, stock, 1))
	first, _ := rdb.Get(ctx, stock).Int() // then paused past its lease
	requireNil(t, g.Claim(ctx, stock, 2))
	second, _ := rdb.Get(ctx, stock).Int()
	requireStale(t, g.Set(ctx, stock, 1, stock, first+1, 0), 1, 2)
	requireNil(t, g.Set(ctx, stock, 2, stock, second+1, 0))
	// The first write was refused, so it is repeated with a new lease.
	requireNil(t, g.Claim(ctx, stock, 3))
	first, _ = rdb.Get(ctx, stock).Int()
	requireNil(t, g.Set(ctx, stock, 3, stock, first+1, 0))
	if n, _ := rdb.Get(ctx, stock).Int(); n != 12 {
		t.Fatalf("%d after two updates of 10", n)
	}
}

// Many holders write at the same time. The counter and the log agree with what was
// accepted, and tokens in the log never decrease.
func TestRedisConcurrentHolders(t *testing.T) {
	_, rdb := openRedis(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	const holders, each = 8, 100
	record := fence.NewScript(`redis.call('SET', KEYS[1], ARGV[1]); return redis.call('RPUSH', KEYS[2], ARGV[2])`)
	keys := []string{stock, "{" + stock + "}:log"}
	var tokens, accepted, refused atomic.Uint64
	var all sync.WaitGroup
	for range holders {
		all.Go(func() {
			for range each {
				token := tokens.Add(1) + rand.Uint64N(3) // some of them late, some equal
				n, err := g.Get(ctx, stock, token, stock)
				if err == nil || errors.Is(err, redis.Nil) {
					count, _ := strconv.Atoi(n)
					// The guard takes equal tokens for one holder, so they may race here.
					err = g.Do(ctx, stock, token, record, keys, count+1, token).Err()
				}
				switch {
				case err == nil:
					accepted.Add(1)
				case errors.Is(err, fence.ErrStale):
					refused.Add(1)
				default:
					t.Errorf("token %d: %v", token, err)
				}
			}
		})
	}
	all.Wait()
	log, err := rdb.LRange(ctx, keys[1], 0, -1).Result()
	requireNil(t, err)
	last := 0
	for _, entry := range log {
		token, _ := strconv.Atoi(entry)
		if token < last {
			t.Fatalf("token %d wrote after %d", token, last)
		}
		last = token
	}
	if uint64(len(log)) != accepted.Load() || accepted.Load()+refused.Load() != holders*each {
		t.Fatalf("%d written, %d accepted, %d refused", len(log), accepted.Load(), refused.Load())
	}
	t.Logf("%d accepted, %d refused", accepted.Load(), refused.Load())
}

// If each holder has a token of its own, no update is lost.
func TestRedisConcurrentCounting(t *testing.T) {
	_, rdb := openRedis(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	var tokens, accepted atomic.Uint64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				token := tokens.Add(1)
				if g.Claim(ctx, stock, token) != nil {
					continue
				}
				n, _ := rdb.Get(ctx, stock).Int()
				if g.Set(ctx, stock, token, stock, n+1, 0) == nil {
					accepted.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n, _ := rdb.Get(ctx, stock).Uint64(); n != accepted.Load() || n == 0 {
		t.Fatalf("counted to %d with %d accepted updates", n, accepted.Load())
	}
}
