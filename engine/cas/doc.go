// Package cas is an engine over any store with compare-and-swap: it runs the queue
// of package internal/queue on one document a resource. Engines such as
// engine/postgres and engine/etcd are adapters, which implement DocumentStore.
//
// # How it works
//
// An operation reads the document, applies the queue's rules to it, and swaps it
// for the new one. The swap fails if another process has changed the document
// meanwhile; then the operation applies the rules to the present document. All
// operations of this process on one resource that wait at that moment share one swap.
// The first try uses the document that this process wrote last, so an operation on a
// resource that only this process uses takes one round trip.
//
// If the outcome of a swap is unknown, the engine reads the document and applies
// the operations again: all are idempotent by holder ID.
//
// A process whose swaps fail in this way proposes its requests to the process of a waiter, by a
// message. That process joins them in its next swap. A proposal that arrives late has no effect.
//
// A waiter's poll writes nothing. While a client has waiters, it writes one small
// document each second, which keeps all of them alive.
//
// # History
//
// A history is documents too, a few for each call of AppendHistory, which never change: what was written together,
// named after when, by which process, and how many events it is. So writers do not contend, and readers read, of all
// the names, only what they want. One call in many lists the names and empties what is too old.
// The time is the store's; without a clock of the store it is that of the machine that wrote.
//
// # Time
//
// If the store has a clock that clients can read (a TimedStore), leases end at instants
// of that clock. A client ends the lease of another client only when a reply of the
// store shows that the lease's time is over. It counts the time of its own lease from
// what the reply to the grant shows to be left.
//
// If the store has no such clock, each renewal of a lease has a stamp, and each
// client measures the lease's TTL on its own monotonic clock from the moment at
// which it received that stamp. That is after the holder sent it, so the holder's
// time ends first, whatever the clocks show, as long as they run at the same
// rate (as DynamoDB's lock client and Kubernetes' leader election do). A
// client that has never read a resource waits a whole TTL before it takes it from
// a dead holder, less the time that other clients have waited already, and less the
// document's age if the store reports one (Doc.Age). A client whose operation ends
// earlier leaves a witness in the store for later clients, if the store is a
// WitnessStore. Marks, tombstones and tokens need a time of day, for which the engine
// uses this machine's clock: on such a store keep the clocks of clients within a
// minute of each other.
package cas
