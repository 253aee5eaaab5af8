package scenario

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// vault is the protected side: a counter in a separate Redis.
type vault struct {
	rdb   *redis.Client
	fence subject.Fence
	guard *fence.Redis
}

// verdict is the vault's answer to an access.
type verdict uint8

const (
	accepted verdict = iota
	refused
)

const counter = resource // the key of the counter is the name of the resource

func newVault(rdb *redis.Client, f subject.Fence) *vault {
	return &vault{rdb: rdb, fence: f, guard: fence.NewRedis(rdb)}
}

// read returns the counter, 0 if it was never written.
func (v *vault) read(ctx context.Context, token uint64) (int64, verdict, error) {
	var n int64
	var err error
	if v.fence == subject.OnClaims {
		n, err = v.guard.Command(ctx, resource, token, "GET", counter).Int64()
	} else {
		n, err = v.rdb.Get(ctx, counter).Int64()
	}
	switch {
	case errors.Is(err, redis.Nil):
		return 0, accepted, nil
	case errors.Is(err, fence.ErrStale):
		return 0, refused, nil
	}
	return n, accepted, err
}

// newerOnly writes unless a write with a higher token was accepted before.
const newerOnly = `
if tonumber(redis.call('GET', KEYS[2]) or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1`

// write sets the counter.
func (v *vault) write(ctx context.Context, token uint64, n int64) (verdict, error) {
	switch v.fence {
	case subject.OnClaims:
		err := v.guard.Set(ctx, resource, token, counter, n, 0)
		if errors.Is(err, fence.ErrStale) {
			return refused, nil
		}
		return accepted, err
	case subject.OnWrites:
		done, err := v.rdb.Eval(ctx, newerOnly, []string{counter, counter + ":token"}, token, n).Int()
		if err == nil && done == 0 {
			return refused, nil
		}
		return accepted, err
	}
	return accepted, v.rdb.Set(ctx, counter, n, 0).Err()
}
