package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	goredispool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

// redsyncMutex is redsync on one node with its default retry delays. Its number
// of tries is raised, since a caller that gives up takes no turn at all.
func redsyncMutex(e *env, name string) (*contender, error) {
	rdb := e.server.Client()
	rs := redsync.New(goredispool.NewPool(rdb))
	return &contender{name: "redsync", done: func() { _ = rdb.Close() },
		pair: func(ctx context.Context) error {
			m := rs.NewMutex(name, redsync.WithExpiry(15*time.Second), redsync.WithTries(1<<20))
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			_, err := m.UnlockContext(ctx)
			return err
		}}, nil
}
