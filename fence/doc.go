// Package fence guards the protected side: it makes Redis or an SQL database
// refuse the writes of a holder whose lease has passed to another.
//
// A lease alone is best effort. A process can be paused between its last look
// at the lease and its write; when it goes on, another may hold the lease and
// have written already. So every lease carries a fencing token
// (holdfast.Lease.Token) which grows with every grant, and the protected side
// keeps the newest token that it has seen and refuses older ones with
// [ErrStale]. The idea is Martin Kleppmann's.
//
// # Claim on first contact, reads included
//
// To check the token on writes only is not enough. Two holders read 10, one
// after the other, and then both write 11 in the order of their tokens: no
// write is older than the last, and one update is lost. So claim the token
// before the first read:
//
//	lease, err := c.Mutex("stock:42").Lock(ctx)
//	...
//	guard := fence.NewRedis(rdb)
//	err = guard.Claim(ctx, "stock:42", lease.Token()) // from here on, older tokens are refused
//	n, err := rdb.Get(ctx, "stock:42").Int()
//	err = guard.Set(ctx, "stock:42", lease.Token(), "stock:42", n-1, 0)
//
// What was read after the claim is current for as long as writes with the token
// are accepted: a newer holder's claim makes the next write fail. Every guarded
// call claims as well, so a first contact that is a guarded call needs no other.
//
// # Which guard
//
//   - [Redis] keeps the newest token in a key beside the data and checks it in
//     the same atomic step as the write: your own script ([Redis.Do]) or one
//     command ([Redis.Command], [Redis.Set], [Redis.Get]).
//   - [SQL] works inside your own transaction on PostgreSQL, MySQL, MariaDB and
//     SQLite: [SQL.Claim] keeps the newest token in a table of its own and locks
//     its row until the transaction ends; [SQL.ClaimRow] and [SQL.Update] keep it
//     in a column of your own row.
//
// # What fencing does not do
//
// It orders holders that exclude each other: a mutex, or the writer of an
// RWMutex. Holders of a semaphore and readers hold their leases side by side,
// and a claim by one would shut out others that hold theirs rightly.
//
// It protects what is written through it. A write without the token, or to a
// store that was not claimed, is not covered. A holder that was refused must
// throw away what it has read, and take the lock again.
//
// A guard knows what its store knows: if the store forgets its last writes (an
// asynchronous failover, a restart without persistence), it may forget a claim.
package fence
