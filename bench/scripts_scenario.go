package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// pipeliner can put pairs into a pipeline.
type pipeliner interface {
	pipe(ctx context.Context, p redis.Pipeliner, resource string)
}

func (p *scriptsClient) pipe(ctx context.Context, to redis.Pipeliner, resource string) {
	acquire, release := p.pair(resource)
	to.Do(ctx, acquire...)
	to.Do(ctx, release...)
}

func (p *setClient) pipe(ctx context.Context, to redis.Pipeliner, resource string) {
	to.SetNX(ctx, resource, bareID, p.ttl)
	to.EvalSha(ctx, p.sha, []string{resource}, bareID)
}

func (p *evalshaClient) pipe(ctx context.Context, to redis.Pipeliner, resource string) {
	for range 2 {
		to.EvalSha(ctx, p.sha, []string{resource}, "holder", 15000)
	}
}

// measurePipelined measures the CPU time of the server for a pair while pairs arrive in
// pipelines, so that the server is always busy and the network has little weight.
func measurePipelined(ctx context.Context, s *testbed, c contender) (figures, error) {
	const batches, depth = 40, 50
	p, err := c.open(settings{addrs: s.addrs(), callers: 1, ttl: s.ttl})
	if err != nil {
		return nil, err
	}
	defer p.close()
	to, ok := p.(pipeliner)
	if !ok {
		return nil, fmt.Errorf("%s cannot be put into a pipeline", c.name)
	}
	resource := s.newResource("pipelined")
	l := p.lock(resource)
	if err := l.Lock(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if err := l.Unlock(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	before, err := s.meter.read(ctx)
	if err != nil {
		return nil, err
	}
	for range batches {
		pipe := s.meter.rdb.Pipeline()
		for range depth {
			to.pipe(ctx, pipe, resource)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, err
		}
	}
	after, err := s.meter.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.Unlock(ctx); err != nil { // check that the pairs released the lock
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	used := after.since(before, c)
	return figures{
		serverCPU: microseconds(used.cpu) / (batches * depth),
		commands:  float64(used.commands) / (batches * depth),
	}, nil
}
