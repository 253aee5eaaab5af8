// Package goredis provides the Redis engine: it stores the queues of Holdfast
// in Redis, through the caller's go-redis client.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	c, err := holdfast.New(goredis.New(rdb))
//
// It requires Redis 6.2 or newer with Lua scripts and pub/sub.
//
// # Connections
//
// Acquire, Release, Break, Snapshot and List use the caller's client, with its
// pool, hooks and timeouts. Renewals and wake-ups use a few connections of the
// engine's own. So do the other calls except List, without the caller's hooks,
// while the caller's pool has no free connection. Therefore an exhausted pool
// costs neither a lease nor a place in the queue, and Lock and TryLock work as
// usual. The engine opens its connections when they are first needed and closes
// them when the last client has left. It never closes the caller's client.
//
// Every call returns soon after its ctx ends, even if Redis hangs. The command
// may still take effect. The goroutine that waits for its reply ends after the
// read timeout of the caller's client, which should therefore not be disabled.
//
// go-redis does not retry the engine's commands: the Holdfast client decides
// whether to repeat a call whose reply was lost, and the scripts make a
// repetition harmless. The caller's MaxRetries has no effect.
//
// On a *redis.ClusterClient, wake-ups use sharded pub/sub (Redis 7), over one
// connection to each master that a client needs, and calls to one node do not
// wait for another.
//
// # What is not promised
//
// Redis replicates asynchronously: a failover forgets a grant that the master
// had not yet replicated, and the resource may then be granted to another; see
// [WithReplicas]. Leases follow the wall clock of the Redis server: a step of
// that clock moves their deadlines. docs/PROTOCOL.md describes keys, fields and
// messages.
package goredis
