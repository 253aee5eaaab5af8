package main

import (
	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// holdfastQuorum is a mutex of Holdfast on n independent nodes.
func holdfastQuorum(name string, n int) contender {
	c := holdfastContender(name)
	c.on = topology{nodes: n}
	c.open = func(s settings) (client, error) {
		var nodes []engine.Engine
		p := &holdfastClient{opts: []holdfast.LockOption{holdfast.WithTTL(s.ttl)}}
		for _, addr := range s.addrs {
			rdb := s.clientOf(addr)
			p.rdbs = append(p.rdbs, rdb)
			nodes = append(nodes, goredis.New(rdb))
		}
		var err error
		p.c, err = holdfast.New(quorum.New(nodes...))
		return p, err
	}
	return c
}
