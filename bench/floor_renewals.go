package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// bareRenewals is what a renewal cannot do without: to read who holds a lease and
// until when, and to write.
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
	renewingCalls = 64 // each of other leases, in turn
)

// renewalsFloor renews leases by Holdfast's own script, or by one that decides
// nothing.
func renewalsFloor(name string) contender {
	return contender{name: name, role: floor, background: true, sends: evalsha,
		open: func(s settings) (party, error) {
			scripts, err := script.New(10 * time.Minute)
			if err != nil {
				return nil, err
			}
			p := &renewalsParty{rdb: s.client(), scripts: scripts}
			if name == bareRenewing {
				p.sha, err = p.rdb.ScriptLoad(context.Background(), bareRenewals).Result()
			}
			return p, err
		}}
}

type renewalsParty struct {
	rdb     *redis.Client
	scripts *script.Set
	sha     string // of bareRenewals, if these are sent
	calls   [][]any
	sent    int
}

func (p *renewalsParty) close() { _ = p.rdb.Close() }

func (p *renewalsParty) pipe(ctx context.Context, to redis.Pipeliner, _ string) {
	to.Do(ctx, p.calls[p.sent%len(p.calls)]...)
	p.sent++
}

func (p *renewalsParty) lock(resource string) lock { return &renewalsLock{p, resource} }

type renewalsLock struct {
	p        *renewalsParty
	resource string
}

// Lock takes the leases.
func (l *renewalsLock) Lock(ctx context.Context) error {
	for i := range renewingCalls {
		var cores, ids []string
		for j := range script.MostRenewed {
			core := fmt.Sprintf("bench:{%s:%d:%d}", l.resource, i, j)
			cores, ids = append(cores, core), append(ids, bareID)
			a := l.p.scripts.Acquire(script.KeysOf(core), script.Acquire{
				ID: bareID, Kind: "mutex", Capacity: 1, Weight: 1, TTL: time.Hour, Queue: true,
			})
			if err := l.p.rdb.Do(ctx, a.Text()...).Err(); err != nil {
				return err
			}
		}
		c := l.p.scripts.RenewAll(time.Hour, cores, strings.Join(ids, " "))
		if err := l.p.rdb.Do(ctx, c.Text()...).Err(); err != nil {
			return err
		}
		args := slices.Clone(c.Args())
		if l.p.sha != "" {
			args[1] = l.p.sha
		}
		l.p.calls = append(l.p.calls, args)
	}
	return l.Unlock(ctx)
}

// Unlock sees that all leases are still renewed.
func (l *renewalsLock) Unlock(ctx context.Context) error {
	for i, args := range l.p.calls {
		if n, err := l.p.rdb.Do(ctx, args...).Int(); err != nil || n != 0 {
			return fmt.Errorf("call %d of renewals: %d, %w", i, n, err)
		}
	}
	return nil
}
