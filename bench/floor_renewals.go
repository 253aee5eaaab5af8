package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

// bareRenewals is the minimum for renewals: it reads the holder and the deadline of
// each lease, and writes a field.
const bareRenewals = `local till = redis.call('TIME')[1] + ARGV[1] / 1000000
till = string.format('%.0f000000', till)
for _, core in ipairs(KEYS) do
  redis.call('HMGET', core, 'deadline', 'holder')
  redis.call('HSET', core, 'deadline', till)
end
return 0`

const (
	ownRenewals   = "64 renewals in a script"
	bareRenewing  = "64 × HMGET and HSET in a script"
	renewingCalls = 64 // made in turn, each for other leases
	// renewalsPerCall is the number of renewals in one call of the engine.
	renewalsPerCall = 64
)

// renewalsFloor renews leases by Holdfast's own script or by bareRenewals, which
// decides nothing.
func renewalsFloor(name string) contender {
	return contender{name: name, role: floor, background: true, sends: evalsha,
		open: func(s settings) (client, error) {
			p := &renewalsClient{rdb: s.client()}
			var err error
			if name == bareRenewing {
				p.sha, err = p.rdb.ScriptLoad(context.Background(), bareRenewals).Result()
			}
			return p, err
		}}
}

type renewalsClient struct {
	rdb   *redis.Client
	sha   string // of bareRenewals, if they are sent
	calls [][]any
	sent  int
}

func (p *renewalsClient) close() { _ = p.rdb.Close() }

func (p *renewalsClient) pipe(ctx context.Context, to redis.Pipeliner, _ string) {
	to.Do(ctx, p.calls[p.sent%len(p.calls)]...)
	p.sent++
}

func (p *renewalsClient) lock(resource string) lock { return &renewalsLock{p, resource} }

type renewalsLock struct {
	p        *renewalsClient
	resource string
}

// Lock acquires the leases, and records the commands that renew them.
func (l *renewalsLock) Lock(ctx context.Context) error {
	calls, err := recordCommands(l.p.rdb, func(e engine.Engine) error {
		for i := range renewingCalls {
			var all []engine.Renewal
			for j := range renewalsPerCall {
				r := benchResource(fmt.Sprintf("%s:%d:%d", l.resource, i, j))
				a, err := e.Acquire(ctx, engine.Request{
					Resource: r, ID: bareID, Kind: "mutex", Capacity: 1, Weight: 1, TTL: time.Hour, Queue: true,
				})
				if err != nil {
					return err
				}
				all = append(all, engine.Renewal{Held: engine.Held{ID: bareID, Token: a.Token}, Resource: r, TTL: time.Hour})
			}
			if err := errors.Join(e.Renew(ctx, all)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, args := range calls {
		if args[2] != renewalsPerCall {
			continue // an acquisition
		}
		if l.p.sha != "" {
			args[1] = l.p.sha
		}
		l.p.calls = append(l.p.calls, args)
	}
	return l.Unlock(ctx)
}

// Unlock checks that all leases are still renewed.
func (l *renewalsLock) Unlock(ctx context.Context) error {
	for i, args := range l.p.calls {
		if n, err := l.p.rdb.Do(ctx, args...).Int(); err != nil || n != 0 {
			return fmt.Errorf("call %d of renewals: %d, %w", i, n, err)
		}
	}
	return nil
}
