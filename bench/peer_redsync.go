package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	goredispool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncContender is redsync on one node, with its default delay between tries (50 to
// 250 ms, random) or with the delay poll. The number of tries is raised, because a
// caller that gives up takes no turn.
func redsyncContender(name string, poll time.Duration) contender {
	var opts []redsync.Option
	if poll > 0 {
		opts = append(opts, redsync.WithRetryDelay(poll))
	}
	return contender{
		name: name, role: peer, background: true, leaseEnd: keyEnd(""),
		sends: []string{"set", "evalsha", "eval"},
		open:  func(s settings) (client, error) { return openRedsync(s, opts...), nil },
	}
}

// redsyncQuorum is redsync on n nodes. The option WithFailFast makes it return at the
// majority.
func redsyncQuorum(name string, n int, opts ...redsync.Option) contender {
	return contender{
		name: name, role: peer, background: true, sends: []string{"set", "evalsha", "eval"}, on: topology{nodes: n},
		open: func(s settings) (client, error) { return openRedsync(s, opts...), nil },
	}
}

func openRedsync(s settings, opts ...redsync.Option) *redsyncClient {
	p := &redsyncClient{ttl: s.ttl, opts: append(opts, redsync.WithExpiry(s.ttl), redsync.WithTries(1<<20))}
	var pools []redsyncredis.Pool
	for _, addr := range s.addrs {
		rdb := s.clientOf(addr)
		p.rdbs = append(p.rdbs, rdb)
		pools = append(pools, goredispool.NewPool(rdb))
	}
	p.rs = redsync.New(pools...)
	return p
}

type redsyncClient struct {
	rs   *redsync.Redsync
	rdbs []*redis.Client
	ttl  time.Duration
	opts []redsync.Option
}

func (p *redsyncClient) lock(resource string) lock {
	next := func() *redsync.Mutex { return p.rs.NewMutex(resource, p.opts...) }
	if len(p.rdbs) > 1 {
		return &redsyncLock{next: next}
	}
	return &redsyncLock{m: next()}
}

// keep renews like the watchdog in redislock's README, which users of redsync also
// write themselves.
func (p *redsyncClient) keep(ctx context.Context, resource string) (any, error) {
	l := p.lock(resource).(*redsyncLock)
	if err := l.Lock(ctx); err != nil {
		return nil, err
	}
	go renewing(ctx, p.ttl, func() bool {
		ok, err := l.m.ExtendContext(ctx)
		return ok && err == nil
	})
	return l, nil
}

func (p *redsyncClient) close() {
	for _, rdb := range p.rdbs {
		_ = rdb.Close()
	}
}

// redsyncLock makes a mutex for each turn if there are several nodes: with fail-fast, a
// late call in the background may still read the value of the last mutex.
type redsyncLock struct {
	m    *redsync.Mutex
	next func() *redsync.Mutex // nil: m is used for all turns
}

func (l *redsyncLock) Lock(ctx context.Context) error {
	if l.next != nil {
		l.m = l.next()
	}
	return l.m.LockContext(ctx)
}

func (l *redsyncLock) Unlock(ctx context.Context) error {
	_, err := l.m.UnlockContext(ctx)
	return err
}

// keyEnd reads the expiry of a key, for locks with a key as their lease.
func keyEnd(prefix string) func(ctx context.Context, rdb *redis.Client, resource string) (time.Time, error) {
	return func(ctx context.Context, rdb *redis.Client, resource string) (time.Time, error) {
		end, err := rdb.PExpireTime(ctx, prefix+resource).Result()
		return time.UnixMilli(end.Milliseconds()), err
	}
}
