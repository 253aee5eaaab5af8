package goredis_test

import (
	"testing"

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

func TestConformanceOnMiniredis(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartMiniredis(t).Client()
	enginetest.Run(t, func(testing.TB) engine.Engine { return goredis.New(rdb) })
}
