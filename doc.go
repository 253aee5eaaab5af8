// Package holdfast provides distributed locks, leases and once-only jobs for
// services that run on several nodes and must not do one thing twice at once.
//
// A lease alone is best effort in an asynchronous world: a process can be
// paused between any check and the write that follows. Therefore every lease
// carries a fencing token, and the protected resource should refuse a token
// lower than the highest it has seen:
//
//	c, err := holdfast.New(goredis.New(rdb))
//	lease, err := c.Mutex("stock:42").Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Release(ctx)
//	return deduct(lease.Context(), lease.Token()) // UPDATE … WHERE fence <= token
//
// # The model
//
// A resource is a named thing. A [Lease] is the right to hold it until a
// deadline, unless the lease is renewed; the client renews it every TTL/3.
// Waiters form a first-come-first-served queue in the store, and a release
// grants the resource to the front of the queue in the same step.
//
// The holder may act during its trust window, which begins when the acquire
// request or the renewal was SENT and lasts for the TTL less a margin. Clocks
// of different machines are never compared: TTLs are durations, and the store's
// own clock decides when a lease expires.
//
// # What happens when something fails
//
//   - A holder dies: the resource becomes free within the TTL.
//   - A waiter dies: it delays the waiters behind it by at most one claim
//     window and one poll, 3 s and 1 s.
//   - A holder is cut off, is paused, or cannot renew: before the store can
//     grant the resource to another, Lease.Context is cancelled and Lease.Err
//     returns [ErrLost]. After a pause both check the clock before they return.
//     Contexts derived from Lease.Context do not; they are cancelled when a
//     timer has run.
//   - An operator breaks a lease: Lease.Context is cancelled at once, or at the
//     next renewal if the wake-up is lost. The store grants the resource to the
//     next waiter when the holder has released it, at the latest at the deadline
//     of the lease.
//   - The store is unavailable: Lock retries until its ctx ends, and TryLock
//     returns [ErrUnavailable]; [WithFallback] has other choices. Every call
//     returns soon after its ctx ends, even if the store hangs, and cleans up
//     in the background.
//   - A wake-up is lost: waiters poll every second.
//
// # What is not promised
//
// Exclusion across a failover to a replica that had not received the grant,
// when the store loses its data, or when its wall clock is stepped: fencing
// tokens cover these cases. Progress without the store. See docs/GUARANTEES.md
// for each engine.
//
// # Engines
//
// Package engine/goredis keeps the queue in Redis: a single server, Sentinel or
// Cluster. Package engine/quorum combines several independent servers into one
// engine, of which a majority decides. Package engine/memory keeps the queue in
// this process, for unit tests. The modules engine/postgres, engine/mysql,
// engine/sqlite, engine/etcd and engine/zookeeper keep the queue of each resource
// in one document of their store, by package engine/cas, which is also the way to
// an engine on another store with compare-and-swap.
package holdfast
