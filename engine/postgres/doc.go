// Package postgres is an engine on PostgreSQL: the locks of package holdfast for a team that
// runs a database. It runs the queue of package cas on one row for each resource, over
// github.com/jackc/pgx/v5. Call Migrate once, or apply what Schema returns.
//
// # Durability
//
// A grant is answered when its transaction has committed: on the disk if the server runs with fsync
// and synchronous_commit, as it does by default, and on the standbys that
// synchronous_standby_names requires. Then a crash of the server, or its restart, loses no
// lease and no waiter. A failover to an asynchronous standby loses what it had not received: a
// lease that was granted or renewed in that time is forgotten, and another holder may be granted
// the resource while the first one works, until the first one's next renewal fails. Fencing tokens still increase if the
// new primary's clock is not behind. WithRelaxed makes commits not wait for the disk, at a similar risk if the
// server crashes. A standby is never used: neither reads nor changes.
//
// # Time
//
// Leases end at instants of the server's clock (clock_timestamp), and no client's clock counts.
// If that clock is set, or if a new primary's is another, all leases become shorter or longer by the difference, once.
//
// # Connections
//
// The engine opens connections of its own, as the configuration of the caller's pool says: up to
// six for calls, and one that listens. So renewals and wake-ups do not wait for a
// free connection of the pool, and a lost session costs nothing: no lease is bound to one.
// Of the hooks of the pool only BeforeConnect and AfterConnect run. Connections are
// closed 30 s after their last use, and when a holdfast.Client on the engine is closed.
//
// With several hosts in the connection string, use target_session_attrs=read-write, so that the
// engine finds the primary after a failover.
//
// # Wake-ups
//
// A hand-off is a commit and then a NOTIFY, in a transaction of its own that does not wait for the
// disk: the commit of a NOTIFY holds a lock of the whole server. The engine listens on one connection, which it
// checks after each 2 s of silence and opens again. Each minute, and on each new connection, it
// also sends itself a notification. If that does not arrive, as behind PgBouncer in
// transaction mode, waiters look each second instead.
//
// Before PostgreSQL 19, each NOTIFY is signalled to every session of the database that listens. A
// database with hundreds of processes that listen is better served with WithoutListen in most of them.
//
// # PgBouncer
//
// In transaction mode, statements are prepared if PgBouncer supports it (1.21 or later, with max_prepared_statements).
// Otherwise the engine notices, and sends them unprepared; default_query_exec_mode=exec in
// the connection string says so from the start. LISTEN does not work there: the engine notices, and waiters look each
// second. WithListenPool leads it past PgBouncer; WithoutListen spares the attempts.
//
// # Data in the same database
//
// A transaction that writes what a lock protects should claim the lease's fencing token first, by package
// fence (fence.Pgx): then it cannot commit after a newer holder has claimed. See the example.
//
// # Costs
//
// Lock and Release without contention are one round trip and one commit each. A poll is one read.
// A client with waiters writes one small row a second, which does not wait for the disk.
// All calls of a process that come together are one transaction. A change is an UPDATE
// and a SELECT by primary key; updates are HOT, so the table stays small unless a long transaction
// elsewhere in the database keeps old rows alive. Rows that are not used any more are
// deleted by the clients, in portions, after every 64th change.
package postgres
