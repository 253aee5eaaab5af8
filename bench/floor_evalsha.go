package main

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// emptyScript does nothing. Two calls of it are the minimum for a lock that decides in
// scripts.
const emptyScript = "return 1"

const evalshaRequestCtx = "two bare EVALSHA, ctx that can end"

// evalshaFloor calls the empty script twice through go-redis.
func evalshaFloor() contender {
	return contender{name: "two bare EVALSHA", role: floor, background: true, sends: evalsha,
		open: func(s settings) (client, error) {
			rdb := s.client()
			return loadEmpty(rdb, rdb)
		}}
}

// evalshaAutoPipeline calls it twice through go-redis's experimental AutoPipeline.
func evalshaAutoPipeline() contender {
	return contender{name: "two bare EVALSHA, AutoPipeline", role: floor, background: true, sends: evalsha,
		open: func(s settings) (client, error) {
			rdb := s.client()
			ap, err := rdb.AutoPipeline()
			if err != nil {
				return nil, err
			}
			return loadEmpty(rdb, ap)
		}}
}

func loadEmpty(rdb *redis.Client, through redis.Scripter) (client, error) {
	sha, err := rdb.ScriptLoad(context.Background(), emptyScript).Result()
	return &evalshaClient{rdb, through, sha}, err
}

type evalshaClient struct {
	rdb     *redis.Client
	through redis.Scripter
	sha     string
}

func (p *evalshaClient) lock(resource string) lock { return &evalshaLock{p, []string{resource}} }
func (p *evalshaClient) close()                    { _ = p.rdb.Close() }

type evalshaLock struct {
	p    *evalshaClient
	keys []string
}

func (l *evalshaLock) Lock(ctx context.Context) error {
	return l.p.through.EvalSha(ctx, l.p.sha, l.keys, "holder", 15000).Err()
}

func (l *evalshaLock) Unlock(ctx context.Context) error { return l.Lock(ctx) }

// evalshaOnRequest calls it twice, each time with a return as soon as the ctx ends: go-redis does not look at a ctx while it waits for
// a reply, so the call is made by another goroutine, which each caller keeps.
func evalshaOnRequest() contender {
	return contender{name: evalshaRequestCtx, role: floor, sends: evalsha,
		open: func(s settings) (client, error) {
			rdb := s.client()
			c, err := loadEmpty(rdb, rdb)
			return &requestClient{client: c, calls: make(chan func())}, err
		}}
}

type requestClient struct {
	client
	calls chan func()
}

func (p *requestClient) lock(resource string) lock {
	go func() {
		for call := range p.calls {
			call()
		}
	}()
	return &requestLock{p.client.lock(resource), p.calls}
}

func (p *requestClient) close() {
	close(p.calls)
	p.client.close()
}

type requestLock struct {
	lock
	calls chan func()
}

func (l *requestLock) Lock(ctx context.Context) error {
	done := make(chan error, 1)
	l.calls <- func() { done <- l.lock.Lock(ctx) }
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *requestLock) Unlock(ctx context.Context) error { return l.Lock(ctx) }

// evalshaRueidis calls it twice through rueidis.
func evalshaRueidis() contender {
	return contender{name: "two bare EVALSHA, rueidis", role: floor, background: true, sends: evalsha,
		open: func(s settings) (client, error) {
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: s.addrs, DisableCache: true})
			return rueidisClient{c, rueidis.NewLuaScript(emptyScript)}, err
		}}
}

type rueidisClient struct {
	c      rueidis.Client
	script *rueidis.Lua
}

func (p rueidisClient) lock(resource string) lock { return &rueidisLock{p, []string{resource}} }
func (p rueidisClient) close()                    { p.c.Close() }

type rueidisLock struct {
	p    rueidisClient
	keys []string
}

func (l *rueidisLock) Lock(ctx context.Context) error {
	return l.p.script.Exec(ctx, l.p.c, l.keys, []string{"holder", "15000"}).Error()
}

func (l *rueidisLock) Unlock(ctx context.Context) error { return l.Lock(ctx) }
