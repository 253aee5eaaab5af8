package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// piper can put pairs into a pipeline.
type piper interface {
	pipe(ctx context.Context, p redis.Pipeliner, resource string)
}

func (p *scriptsParty) pipe(ctx context.Context, to redis.Pipeliner, resource string) {
	acquire, release := p.pair(resource, bareID, p.request.TTL)
	to.Do(ctx, acquire.Args()...)
	to.Do(ctx, release.Args()...)
}

func (p *setParty) pipe(ctx context.Context, to redis.Pipeliner, resource string) {
	to.SetNX(ctx, resource, bareID, p.ttl)
	to.EvalSha(ctx, p.sha, []string{resource}, bareID)
}

func (p *evalshaParty) pipe(ctx context.Context, to redis.Pipeliner, resource string) {
	for range 2 {
		to.EvalSha(ctx, p.sha, []string{resource}, "holder", 15000)
	}
}

// pipelined measures the CPU time of the server for a pair while pairs come in
// pipelines: it works all the time, and the network weighs little.
func pipelined(ctx context.Context, s *stage, c contender) (figures, error) {
	const batches, depth = 40, 50
	p, err := c.open(settings{addrs: s.addrs(), callers: 1, ttl: s.ttl})
	if err != nil {
		return nil, err
	}
	defer p.close()
	to, ok := p.(piper)
	if !ok {
		return nil, fmt.Errorf("%s cannot be put into a pipeline", c.name)
	}
	resource := s.fresh("pipelined")
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
	if err := l.Unlock(ctx); err != nil { // it was what it says that was measured
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	used := after.since(before, c)
	return figures{
		serverCPU: microseconds(used.cpu) / (batches * depth),
		commands:  float64(used.commands) / (batches * depth),
	}, nil
}
