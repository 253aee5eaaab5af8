// Package mysql is an engine on MySQL and MariaDB: the locks of package holdfast for a team
// that runs one of them. It runs the queue of package cas on one row for each resource, over
// database/sql and github.com/go-sql-driver/mysql.
//
// # Statements
//
// Every statement is a transaction of its own, by primary key. So no client keeps a row locked between two
// round trips, also if it is cut off then, which neither server would notice for long; and the isolation level
// and the time zone of a session have no effect. The values are in the text of the statement, as hexadecimal literals:
// one round trip, with interpolateParams and without. Autocommit must be on, as it is by default. Deadlocks and lock
// timeouts (1213, 1205), which only foreign transactions on these tables can cause, are retried. On MariaDB no statement
// waits longer than 1 s for a row. MySQL has no such limit for a statement: set innodb_lock_wait_timeout=1 in the data source
// name, or four rows that others keep locked can hold up the locks of a process until these calls time out.
//
// # Durability
//
// A call is answered when its commit has succeeded: with innodb_flush_log_at_trx_commit=1, the default, it survives a
// crash of the server. After a failover to an asynchronous replica, grants that the replica
// had not received are gone, and two may hold; semi-synchronous replication, and fencing, are what helps. On a
// Galera cluster a conflict shows at the commit, which is awaited. A read may be old
// there, so connect all clients to one node, or set wsrep_sync_wait=1 in the data source name. A proxy must not
// send reads to replicas. A server that is read-only is unavailable, until it is not.
//
// # Time
//
// Leases end at instants of the server's UTC clock. A step of that clock ends leases early or late, and so does a
// failover to a server whose clock differs.
//
// # Wake-ups
//
// There is no notification, so a message is a row of holdfast1_wake. Each process that has waiters looks for
// its own with one indexed read, every 5 to 25 ms while one of its waiters is first in line, every 5 to 250 ms otherwise, the more
// rarely the longer it lasts, and once a second while it only holds leases. A release does not wait for its message,
// which is a second commit. Clients that share an Engine wake each other without the table.
//
// # Data in the same database
//
// A transaction that writes what a lock protects should claim the lease's fencing token first, by package
// fence: then it cannot commit after a newer holder has claimed. See the example.
//
// # Costs
//
// Lock and Release without contention are one round trip and one commit each. A poll of a waiter is one read; a client with
// waiters also writes one small row a second, which is a commit: neither server can relax a single transaction. At most
// six connections of the pool are in use at the same time, each for a statement, and one is enough. A document has at
// most 512 KiB, some 5,000 waiters; it is sent as twice as much text, so max_allowed_packet must be 2 MB at least.
package mysql
