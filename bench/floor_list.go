package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// listFloor passes one element of a list from client to client by BLPOP and LPUSH: the
// server's own first-come-first-served queue. It is not a lock: if the client with the
// element dies, the element is lost.
func listFloor() contender {
	return contender{name: "BLPOP/LPUSH", role: floor, sends: []string{"blpop", "lpush"},
		open: func(s settings) (client, error) { return listClient{s.client()}, nil }}
}

type listClient struct{ rdb *redis.Client }

func (p listClient) lock(resource string) lock { return listLock{p.rdb, resource} }
func (p listClient) close()                    { _ = p.rdb.Close() }

// provide creates the element of a resource.
func (p listClient) provide(ctx context.Context, resource string) error {
	return p.rdb.RPush(ctx, resource, "turn").Err()
}

type listLock struct {
	rdb  *redis.Client
	name string
}

// Lock does not return when ctx ends: go-redis does not interrupt a read, and every
// caller gets the element in the end.
func (l listLock) Lock(ctx context.Context) error {
	return l.rdb.BLPop(context.WithoutCancel(ctx), 0, l.name).Err()
}

func (l listLock) Unlock(ctx context.Context) error { return l.rdb.LPush(ctx, l.name, "turn").Err() }
