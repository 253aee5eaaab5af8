// Package sqlite is an engine on SQLite: the locks of package holdfast for the processes of
// one host, without a server. It runs the queue of package cas on one row for each
// resource, over database/sql and any driver (tested with modernc.org/sqlite, which needs no C
// compiler).
//
// # One host
//
// All processes must run on the host that has the file. On a network file system SQLite's
// locks are not reliable, and its WAL mode does not work at all: use a store with a server.
// Containers of one host that mount the file from a local disk are fine.
//
// # A file of its own
//
// SQLite has one writer for each file. A process that keeps a transaction open, on whatever table, makes
// every lock of the file wait, and leases that are not renewed in time are lost. So give the locks a file and
// a *sql.DB of their own. A process that is stopped (SIGSTOP, a debugger) in the some 50 µs of a
// transaction stops all others until it goes on or is killed. If it is killed, the kernel
// drops its lock, SQLite undoes what it had not finished, and the others go on.
//
// # Durability
//
// Whatever was answered survives the death of any process. A power loss or a crash of the kernel ends all
// holders and waiters together with the host, so leases are written without waiting for the disk
// (PRAGMA synchronous = NORMAL) and the latest of them may be gone after that. Marks,
// which outlive every process (Once, Job), are on the disk when the call returns (FULL). The
// engine sets both for its own transactions, however the database was opened.
//
// # Time
//
// Leases are timed by the monotonic clock of the host, which nobody can set: changes of the time of day and
// suspensions neither shorten nor extend them against their holders. On Linux each row
// has the time at which it was made on that clock, so that a process that has just been started knows whether a
// holder that died before is still in time. After a reboot all leases that are left last for their TTL
// once more, from the first use of the file. On other systems a process waits a TTL from when
// it first saw a lease, less what others had waited before. Marks, tokens, the history and Now use the time of day
// (decision 0125).
//
// # Wake-ups
//
// A message is a row, written in the transaction of its change. Each process that has waiters
// looks for new rows, every 5 to 25 ms while one of its waiters is first in line, every 5 to 250 ms
// otherwise, the more rarely the longer it lasts, and once a second while it only holds leases.
// Clients that share an Engine wake each other without the table.
//
// # Costs
//
// Lock and Release without contention are one transaction each, and one connection of the pool at
// a time; two at most are in use at the same time, and one is enough. A poll reads one row. A
// document has at most 512 KiB, some 5,000 waiters.
package sqlite
