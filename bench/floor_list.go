package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// listFloor passes one element of a list on by BLPOP and LPUSH: the server's
// own first-come-first-served queue. It is no lock, since the element dies with
// whoever has it.
func listFloor() contender {
	return contender{name: "BLPOP/LPUSH", role: floor, sends: []string{"blpop", "lpush"},
		open: func(s settings) (party, error) { return listParty{s.client()}, nil }}
}

type listParty struct{ rdb *redis.Client }

func (p listParty) lock(resource string) lock { return listLock{p.rdb, resource} }
func (p listParty) close()                    { _ = p.rdb.Close() }

// provide makes the element of a resource, once.
func (p listParty) provide(ctx context.Context, resource string) error {
	return p.rdb.RPush(ctx, resource, "turn").Err()
}

type listLock struct {
	rdb  *redis.Client
	name string
}

// Lock does not end with ctx: go-redis does not, and the element comes round.
func (l listLock) Lock(ctx context.Context) error {
	return l.rdb.BLPop(context.WithoutCancel(ctx), 0, l.name).Err()
}

func (l listLock) Unlock(ctx context.Context) error { return l.rdb.LPush(ctx, l.name, "turn").Err() }
