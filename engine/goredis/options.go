package goredis

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// An Option configures an Engine.
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

// WithRetention sets how long Redis remembers a resource after its last lease
// could have ended: its last fencing token and the holder IDs that ended
// (default 10 min, at least 1 min). During that time a late copy of a request
// is refused, and tokens grow even if the clock of Redis is set back. All
// engines of an application should use the same value.
//
// The retention must exceed the longest time that a request can be in transit
// and the longest step by which the clock of Redis can be set back. It also
// determines how much memory many names take: a mutex that is locked once takes
// about 300 bytes of Redis for its TTL and 1.08 times the retention. 10,000 new
// names per second take 2 GB with the default, and 230 MB with a retention of
// one minute. See "What a name costs the server" in docs/PERFORMANCE.md.
func WithRetention(d time.Duration) Option {
	return func(o *options) { o.retention = d }
}

// WithReplicas makes a grant, a renewal or a mark count only if n replicas of
// the master confirm it. If too few do so within the timeout, the error is a
// *ReplicasError, which matches engine.ErrUnavailable. Lock then retries,
// TryLock fails, and what they left is withdrawn; a renewal is retried until
// the trust window closes, and then the lease is lost.
//
// n must be the number of ALL replicas of each master that could be promoted:
// with fewer, a failover may promote one that does not have the grant. The
// clocks of the servers must agree, since deadlines are absolute. All engines
// of an application should use the same n. Each grant and renewal takes one
// more round trip to the replicas, and a hand-off one to the master. While a
// replica is unavailable, each takes the whole timeout and fails.
//
// n is at least 1. The timeout is 1 ms to 2 s and below the read timeout of the
// redis client. By default, replicas are not awaited.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(o *options) { o.replicas.n, o.replicas.wait = n, timeout }
}

// WithFsync makes WithReplicas wait until the replicas have written to disk
// (WAITAOF). The replicas need append-only files, preferably with appendfsync
// always: with everysec each grant and renewal takes one or two seconds, and
// the timeout of WithReplicas must be at least that long. A server without that
// command, which is Redis before 7.2, is treated as without WithFsync.
func WithFsync() Option {
	return func(o *options) { o.replicas.fsync = true }
}

func (o options) check(rdb redis.UniversalClient) error {
	if o.retention < minRetention {
		return fmt.Errorf("goredis: retention %v is below %v", o.retention, minRetention)
	}
	return o.replicas.check(rdb)
}
