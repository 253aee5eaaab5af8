package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// contender can lock and unlock.
type contender struct {
	name string
	pair func(ctx context.Context) error // one lock and one unlock
	done func()
}

// evalFloor is what two round trips of a script cost through the driver: less is
// not possible for a lock that decides in scripts.
func evalFloor(e *env) (*contender, error) {
	rdb := e.server.Client()
	sha, err := rdb.ScriptLoad(e.ctx, "return 1").Result()
	if err != nil {
		return nil, err
	}
	keys := []string{"{floor}"}
	return &contender{name: "two bare EVALSHA", done: func() { _ = rdb.Close() },
		pair: func(ctx context.Context) error {
			for range 2 {
				if err := rdb.EvalSha(ctx, sha, keys, "holder", 15000).Err(); err != nil {
					return err
				}
			}
			return nil
		}}, nil
}

// bareRelease is the usual script that deletes a lock only if it is one's own.
const bareRelease = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

const bareID = "0123456789ab.0123456789"

// byHand are pairs of commands as a client could send them itself.
type byHand struct {
	acquire, release script.Call
	bareSHA          string
	ctx              context.Context
}

// loadScripts makes the server know the scripts.
func loadScripts(e *env, rdb *redis.Client) (*byHand, error) {
	scripts, err := script.New(10 * time.Minute)
	if err != nil {
		return nil, err
	}
	keys := script.Keys{"bench:{floor}", "bench:{floor}:line"}
	h := &byHand{ctx: e.ctx}
	h.acquire = scripts.Acquire(keys, script.Acquire{
		ID: bareID, Kind: "mutex", Capacity: 1, Weight: 1, TTL: 15 * time.Second, Reserve: 16, Queue: true,
	})
	h.release = scripts.Release(keys, script.Release{ID: bareID, Token: 1})
	for _, c := range []script.Call{h.acquire, h.release} {
		if err := rdb.Do(e.ctx, c.Text()...).Err(); err != nil {
			return nil, err
		}
	}
	h.bareSHA, err = rdb.ScriptLoad(e.ctx, bareRelease).Result()
	return h, err
}

func (h *byHand) holdfast(p redis.Pipeliner) {
	p.Do(h.ctx, h.acquire.Args()...)
	p.Do(h.ctx, h.release.Args()...)
}

func (h *byHand) bare(p redis.Pipeliner) {
	p.SetNX(h.ctx, "{bare}", bareID, 15*time.Second)
	p.EvalSha(h.ctx, h.bareSHA, []string{"{bare}"}, bareID)
}

// scriptFloor sends Holdfast's own scripts by hand: what is above it is the
// client's.
func scriptFloor(e *env) (*contender, error) {
	rdb := e.server.Client()
	h, err := loadScripts(e, rdb)
	if err != nil {
		return nil, err
	}
	return &contender{name: "the same scripts, sent by hand", done: func() { _ = rdb.Close() },
		pair: func(ctx context.Context) error {
			if err := rdb.Do(ctx, h.acquire.Args()...).Err(); err != nil {
				return err
			}
			return rdb.Do(ctx, h.release.Args()...).Err()
		}}, nil
}

// setFloor is the simplest lock of all: no token, no queue, no fairness.
func setFloor(e *env) (*contender, error) {
	rdb := e.server.Client()
	sha, err := rdb.ScriptLoad(e.ctx, bareRelease).Result()
	if err != nil {
		return nil, err
	}
	keys := []string{"{bare}"}
	return &contender{name: "SET NX PX + compare-and-delete", done: func() { _ = rdb.Close() },
		pair: func(ctx context.Context) error {
			ok, err := rdb.SetNX(ctx, keys[0], bareID, 15*time.Second).Result()
			if err != nil || !ok {
				return fmt.Errorf("SET NX: %v %w", ok, err)
			}
			return rdb.EvalSha(ctx, sha, keys, bareID).Err()
		}}, nil
}

func holdfastMutex(e *env, name string, opts ...holdfast.LockOption) (*contender, error) {
	rdb := e.server.Client()
	c, err := holdfast.New(goredis.New(rdb))
	if err != nil {
		return nil, err
	}
	m := c.Mutex(name, opts...)
	return &contender{name: "holdfast",
		done: func() { _ = c.Close(); _ = rdb.Close() },
		pair: func(ctx context.Context) error {
			l, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		}}, nil
}

// commandStats returns calls and server time by command, as the server counts.
func commandStats(ctx context.Context, rdb *redis.Client) (calls map[string]int, usec map[string]float64, err error) {
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, nil, err
	}
	calls, usec = map[string]int{}, map[string]float64{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if !ok {
			continue
		}
		var n int
		var u float64
		if _, err := fmt.Sscanf(rest, "calls=%d,usec=%g,", &n, &u); err == nil {
			calls[name], usec[name] = n, u
		}
	}
	return calls, usec, nil
}

func serverVersion(e *env) (string, error) {
	rdb := e.server.Client()
	defer rdb.Close()
	info, err := rdb.Info(e.ctx, "server").Result()
	if err != nil {
		return "", err
	}
	_, v, _ := strings.Cut(info, "redis_version:")
	v, _, _ = strings.Cut(v, "\r")
	return v, nil
}
