// Package goredis is the Redis engine: it stores the queues of Holdfast in
// Redis, through the caller's own go-redis client.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	c, err := holdfast.New(goredis.New(rdb))
//
// It needs Redis 6.2 or newer, Lua scripts and pub/sub included.
//
// # What it uses
//
// Acquire, Release, Break, Snapshot and List go through the caller's client:
// its pool, its hooks, its timeouts. Renewals and wake-ups use connections of
// their own, a handful for each engine; so do the other calls, but for List, while
// the caller's pool has no connection to give, without the caller's hooks. So an
// exhausted pool costs neither a lease nor a place in the queue, and Lock and
// TryLock work as ever. These connections are opened when first needed and closed
// when the last client has left. The caller's client is never closed.
//
// Every call returns soon after its ctx ends, also when Redis hangs. What it
// had sent may still be on its way; the goroutine that waits for it ends by the
// read timeout of the caller's client (which should therefore not be disabled).
//
// No command is sent twice by go-redis: whether a call whose answer was lost is
// repeated is decided by the Holdfast client, and the scripts make a repetition
// harmless. MaxRetries of the caller's client does not matter.
//
// On a *redis.ClusterClient wake-ups go by sharded pub/sub (Redis 7), over one
// connection to each master that a client needs, and what concerns one node does
// not wait for another.
//
// # What is not promised
//
// Redis replicates asynchronously: a grant that the master had not yet passed
// on is forgotten by a failover, and another may then be granted; see
// WithReplicas. Leases follow the wall clock of the Redis server: a step of that
// clock moves their ends. Keys, fields and messages are described in
// docs/PROTOCOL.md.
package goredis
