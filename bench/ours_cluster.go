package main

import (
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

// holdfastCluster is a mutex of Holdfast on a cluster without replicas.
func holdfastCluster(name string, masters int) contender {
	c := holdfastContender(name)
	c.on = topology{masters: masters}
	c.open = func(s settings) (client, error) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: s.addrs, PoolSize: s.poolSize()})
		hc, err := holdfast.New(goredis.New(rdb))
		if err != nil {
			return nil, err
		}
		return &holdfastClient{hc, []io.Closer{rdb}, []holdfast.LockOption{holdfast.WithTTL(s.ttl)}}, nil
	}
	return c
}
