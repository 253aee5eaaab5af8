package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockContender is bsm/redislock. Its user chooses the delay between tries;
// several are measured.
func redislockContender(name string, poll time.Duration) contender {
	return contender{
		name: name, role: peer, background: true, leaseEnd: keyEnd(""), sends: evalsha,
		open: func(s settings) (client, error) {
			rdb := s.client()
			return &redislockClient{rdb, redislock.New(rdb), s.ttl, poll}, nil
		},
	}
}

// redislockAutoPipeline is the same over go-redis's experimental AutoPipeline,
// which combines concurrent calls into pipelines. It does not end a queued call when
// its context ends.
func redislockAutoPipeline(name string, poll time.Duration) contender {
	return contender{
		name: name, role: peer, background: true, leaseEnd: keyEnd(""), sends: evalsha,
		open: func(s settings) (client, error) {
			rdb := s.client()
			ap, err := rdb.AutoPipeline()
			if err != nil {
				return nil, err
			}
			return &redislockClient{rdb, redislock.New(ap), s.ttl, poll}, nil
		},
	}
}

type redislockClient struct {
	rdb  *redis.Client
	c    *redislock.Client
	ttl  time.Duration
	poll time.Duration
}

func (p *redislockClient) lock(resource string) lock {
	return &redislockLock{p: p, key: resource, opts: &redislock.Options{RetryStrategy: redislock.LinearBackoff(p.poll)}}
}

// keep renews like the watchdog in the README, which users write themselves.
func (p *redislockClient) keep(ctx context.Context, resource string) (any, error) {
	l := p.lock(resource).(*redislockLock)
	if err := l.Lock(ctx); err != nil {
		return nil, err
	}
	go renewing(ctx, p.ttl, func() bool { return l.held.Refresh(ctx, p.ttl, nil) == nil })
	return l, nil
}

// renewing calls renew every third of the TTL until it fails or ctx ends.
func renewing(ctx context.Context, ttl time.Duration, renew func() bool) {
	t := time.NewTicker(ttl / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if !renew() {
				return
			}
		}
	}
}

func (p *redislockClient) close() { _ = p.rdb.Close() }

type redislockLock struct {
	p    *redislockClient
	key  string
	opts *redislock.Options
	held *redislock.Lock
}

// Lock tries again when the library ends its wait, which is bounded by the TTL.
func (l *redislockLock) Lock(ctx context.Context) (err error) {
	for {
		l.held, err = l.p.c.Obtain(ctx, l.key, l.p.ttl, l.opts)
		ended := errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded)
		if ctx.Err() != nil || !ended {
			return err
		}
	}
}

func (l *redislockLock) Unlock(ctx context.Context) error { return l.held.Release(ctx) }
