// Package holdfast gives distributed locks, leases and once-only jobs for
// services that run on several nodes and must not do one thing twice at once.
//
// A lease alone is best effort in an asynchronous world: a process can be paused
// between any check and the write that follows. So every lease carries a fencing
// token, and what is protected should refuse a token older than the last it saw:
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
// deadline, unless it is renewed; the client renews every third of the TTL. A
// waiter stands in a first-come-first-served queue that the store keeps, and the
// release grants to the front of that queue in the same step.
//
// The holder acts within its trust window: from the moment it SENT the attempt
// or renewal, for the TTL less a margin. No clock of one machine is compared
// with that of another; TTLs are relative and the store's own time decides.
//
// # What happens when something fails
//
//   - The holder dies: the resource is free within the TTL.
//   - A waiter dies: those behind it lose at most one claim window of 3 s.
//   - The holder is cut off, or paused, or renewals fail: Lease.Context is
//     cancelled and Lease.Err says [ErrLost] before the store can grant to
//     another. After a pause both look at the clock before they answer; contexts
//     derived from Lease.Context do not, and follow when a timer has run.
//   - An operator breaks the lease: its holder is told at once, and others get the
//     resource when the holder has released it, at the latest at its deadline.
//   - The store is away: Lock keeps trying until its ctx ends, TryLock says
//     [ErrUnavailable]; see [WithFallback] for what else they can do. Every call returns soon after its ctx ends, also when
//     the store hangs, and cleans up behind itself.
//   - A wake-up is lost: waiters poll every second.
//
// # What is not promised
//
// Exclusion across a failover to a replica that had not received the grant, or
// when the store loses its data or its wall clock is stepped: fencing tokens
// cover that. Progress without the store. See docs/GUARANTEES.md for each engine.
//
// # Engines
//
// Package engine/goredis keeps the queue in Redis: one server, Sentinels or a
// cluster. Package engine/quorum makes one engine of several independent servers,
// of which a majority decides. Package engine/memory keeps the queue in this
// process, for unit tests.
package holdfast
