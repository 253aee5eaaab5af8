package goredis_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestConformanceOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	enginetest.Run(t, func(testing.TB) engine.Engine { return goredis.New(rdb) })
}

func TestConformanceUnderSentinels(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartSentinel(t).Client()
	enginetest.Run(t, func(testing.TB) engine.Engine { return goredis.New(rdb) })
}

// Not beside others: it runs Lua in this process, and the suite wants quick answers.
func TestConformanceOnMiniredis(t *testing.T) {
	server := miniredis.RunT(t)
	server.ClockTTL(true)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	enginetest.Run(t, func(testing.TB) engine.Engine { return goredis.New(rdb) })
}
