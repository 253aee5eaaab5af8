// Package fence guards the data that a lock protects: it makes Redis or an SQL
// database refuse the writes of a holder whose lease has passed to another.
//
// A lease alone is best effort. A process can be paused between its last check
// of the lease and its write; when it continues, another process may hold the
// lease and may already have written. Therefore every lease carries a fencing
// token (holdfast.Lease.Token), which grows with every grant. The protected
// side stores the highest token that it has seen and refuses lower ones with
// [ErrStale]. The idea is Martin Kleppmann's.
//
// # Claim before the first read
//
// To check the token on writes only is not enough. If two holders read 10, one
// after the other, and then both write 11 in the order of their tokens, no
// write has a stale token, and one update is lost. So claim the token before
// the first read:
//
//	lease, err := c.Mutex("stock:42").Lock(ctx)
//	...
//	guard := fence.NewRedis(rdb)
//	err = guard.Claim(ctx, "stock:42", lease.Token()) // from here on, older tokens are refused
//	n, err := rdb.Get(ctx, "stock:42").Int()
//	err = guard.Set(ctx, "stock:42", lease.Token(), "stock:42", n-1, 0)
//
// What was read after the claim is current for as long as writes with the token
// are accepted: the claim of a newer holder makes the next write fail. Every
// guarded call claims as well, so no separate claim is needed if the first
// access is a guarded call.
//
// # Which guard
//
//   - [Redis] stores the newest token in a key beside the data and checks it in
//     the same atomic step as the write: your own script ([Redis.Do]) or one
//     command ([Redis.Command], [Redis.Set], [Redis.Get]).
//   - [SQL] works inside your own transaction on PostgreSQL, MySQL, MariaDB and
//     SQLite, through database/sql or pgx ([Pgx]). [SQL.Claim] stores the newest token in a table of its own and
//     locks its row until the transaction ends. [SQL.ClaimRow] and [SQL.Update]
//     store it in a column of your own row. [SQL.ClaimShared] is for readers.
//
// # What fencing does not do
//
// It orders holders that exclude each other: those of a mutex, or the writers
// of an RWMutex. Holders of a semaphore, and readers, hold their leases at the
// same time, and a claim by one would refuse others whose leases are valid;
// readers use [SQL.ClaimShared].
//
// It protects only what is written through it. A write without the token, or to
// a store that was not claimed, is not covered. A holder that was refused must
// discard what it has read and acquire the lock again.
//
// A guard is as durable as its store: if the store loses its last writes (an
// asynchronous failover, a restart without persistence), the guard may lose a
// claim.
package fence
