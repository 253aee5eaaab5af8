package fence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func ExampleRedis() {
	store, err := redistest.Launch() // your Redis
	if err != nil {
		panic(err)
	}
	defer store.Stop()
	rdb := redis.NewClient(&redis.Options{Addr: store.Addr()})
	defer rdb.Close()
	guard := fence.NewRedis(rdb)
	ctx := context.Background()
	rdb.Set(ctx, "stock:42", 10, 0)

	// Two holders, the first of which was paused until its lease had passed on.
	const paused, next = 1001, 1002 // lease.Token()
	if err := guard.Claim(ctx, "stock:42", paused); err != nil {
		panic(err)
	}
	seen, _ := rdb.Get(ctx, "stock:42").Int()

	left, err := guard.Get(ctx, "stock:42", next, "stock:42") // claims as well
	fmt.Println("the next reads", left, err)

	err = guard.Set(ctx, "stock:42", paused, "stock:42", seen-1, 0)
	fmt.Println("the paused one is refused:", errors.Is(err, fence.ErrStale))
	// Output:
	// the next reads 10 <nil>
	// the paused one is refused: true
}

func ExampleRedis_Do() {
	store, err := redistest.Launch() // your Redis
	if err != nil {
		panic(err)
	}
	defer store.Stop()
	rdb := redis.NewClient(&redis.Options{Addr: store.Addr()})
	defer rdb.Close()
	ctx := context.Background()
	rdb.HSet(ctx, "stock:42", "left", 10)

	c, err := holdfast.New(memory.New())
	if err != nil {
		panic(err)
	}
	defer c.Close()
	guard := fence.NewRedis(rdb)
	sell := fence.NewScript(`
		local left = tonumber(redis.call('HGET', KEYS[1], 'left'))
		if left < tonumber(ARGV[1]) then
			return redis.error_reply('SOLDOUT only ' .. left .. ' left')
		end
		return redis.call('HINCRBY', KEYS[1], 'left', -ARGV[1])`)

	lease, err := c.Mutex("stock:42").Lock(ctx)
	if err != nil {
		panic(err)
	}
	defer lease.Release(ctx)
	left, err := guard.Do(lease.Context(), "stock:42", lease.Token(), sell, []string{"stock:42"}, 3).Int()
	fmt.Println(left, err)
	// Output: 7 <nil>
}
