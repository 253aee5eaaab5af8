package goredis

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Option changes how an Engine works.
type Option func(*options)

type options struct {
	retention time.Duration
	replicas  replicas
	// fragments replaces parts of the scripts; for tests only.
	fragments map[string]string
}

// Limits of WithRetention.
const (
	defaultRetention = 10 * time.Minute
	minRetention     = time.Minute
)

// WithRetention sets how long a resource is remembered after its last lease
// could have ended: its last fencing token and the holder IDs that ended. Within
// this time a late copy of a request is refused, and tokens grow even if the
// clock of Redis is set back. Default 10 min, at least 1 min; every engine of
// one application should use the same.
//
// It must exceed the longest time that a request can be under way, and the
// furthest that the clock of Redis can be set back. It also decides how much
// memory many names take: a mutex that is locked once keeps about 300 bytes of
// Redis for its TTL and 1.08 times the retention. With 10,000 new names a second
// that is 2 GB at the default, and 230 MB with a retention of one minute. See
// "What a name costs the server" in docs/PERFORMANCE.md.
func WithRetention(d time.Duration) Option {
	return func(o *options) { o.retention = d }
}

// WithReplicas makes a grant, a renewal or a mark count only when n replicas of
// the master have it. Too few within the timeout: a *ReplicasError, which is an
// engine.ErrUnavailable. Then Lock goes on trying, TryLock fails, and what they
// leave is withdrawn; a renewal is tried again until the trust window ends, and
// then the lease is lost.
//
// It keeps leases over a failover only if n is the number of ALL replicas that
// could be promoted, of each master: with fewer, the one that is promoted may be
// another. The clocks of the servers must agree, since deadlines are absolute.
// Every engine of an application should use the same n. Each grant and renewal
// takes one round trip to the replicas more, and a hand-off one to the master;
// while a replica is away, each takes the whole timeout, and fails.
//
// n is at least 1; the timeout lies between 1 ms and 2 s and below the read
// timeout of the redis client. Default: the master's word counts.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(o *options) { o.replicas.n, o.replicas.wait = n, timeout }
}

// WithFsync makes WithReplicas wait until the replicas have it on disk (WAITAOF),
// for which they need append-only files, best with appendfsync always: with
// everysec each grant and renewal takes a second, or two, and the timeout of
// WithReplicas has to be at least that. A server that does not know that command,
// which is Redis before 7.2, is asked for WithReplicas alone.
func WithFsync() Option {
	return func(o *options) { o.replicas.fsync = true }
}

func (o options) check(rdb redis.UniversalClient) error {
	if o.retention < minRetention {
		return fmt.Errorf("goredis: retention %v is below %v", o.retention, minRetention)
	}
	return o.replicas.check(rdb)
}
