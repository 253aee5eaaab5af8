package main

import (
	"context"
	"io"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// redisStore is a Redis that keeps everything in memory or, synced, has each change on the disk
// before it replies.
func redisStore(name string, synced bool) store {
	return store{
		name: name, disk: synced,
		launch: func(context.Context) (*storeServer, error) { return launchRedis(synced) },
		engine: func(s settings) (engine.Engine, io.Closer, error) {
			rdb := s.client()
			return goredis.New(rdb), rdb, nil
		},
		commits: func(s settings) (client, error) {
			rdb := s.client()
			set := func(ctx context.Context) error { return rdb.Set(ctx, "bare", "a small value", 0).Err() }
			return twice(set, func() { _ = rdb.Close() }), nil
		},
		ring: listFloor().open,
	}
}

func launchRedis(synced bool) (*storeServer, error) {
	var opts []redistest.Option
	remove := func() {}
	if synced {
		dir, err := os.MkdirTemp("", "holdfast-bench-redis-")
		if err != nil {
			return nil, err
		}
		remove = func() { _ = os.RemoveAll(dir) }
		opts = append(opts, redistest.WithAppendOnly(), redistest.WithArgs("--dir", dir, "--appendfsync", "always"))
	}
	server, err := redistest.Launch(opts...)
	if err != nil {
		remove()
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 1, DisableIdentity: true})
	m := &redisMeter{rdb}
	return &storeServer{
		addrs: []string{server.Addr()}, pid: server.PID(), clear: m.empty,
		writes: func(ctx context.Context) (int, error) {
			u, err := m.read(ctx)
			return u.sent([]string{"evalsha", "eval", "set", "lpush", "blpop"}), err
		},
		stop: func() {
			m.close()
			server.Stop()
			remove()
		},
	}, nil
}
