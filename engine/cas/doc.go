// Package cas is an engine over any store with compare-and-swap: it runs the queue
// of package internal/queue on one document a resource. Engines such as
// engine/postgres and engine/etcd are adapters, which implement DocumentStore.
//
// # How it works
//
// An operation reads the document, applies the queue's rules to it, and swaps it
// for the new one if nobody has changed it meanwhile; otherwise the rules are
// applied to the document that is there instead. All operations of this process on
// one resource that are waiting at that moment are one swap. The document that this
// process wrote last is tried first, so that an operation on a resource that
// only this process uses is one round trip.
//
// If the outcome of a swap is unknown, the engine reads the document and applies
// the operations again: all are idempotent by holder ID.
//
// A process that loses such races proposes its requests to the process of a waiter, by a message,
// and that one joins them in its next swap. A proposal that arrives late has no effect.
//
// A waiter's poll writes nothing. While a client has waiters, one small document a
// client, written each second, keeps all of them alive.
//
// # Time
//
// If the store has a clock that clients can read (a TimedStore), leases end at instants
// of it. A client never ends another's lease before a reply of the store shows
// that the time has come, and counts its own from what the reply to its grant
// shows to be left of it.
//
// If the store has no such clock, each renewal of a lease has a stamp, and each
// client measures the lease's TTL on its own monotonic clock from the moment at
// which it received that stamp. That is after the holder sent it, so the holder's
// time ends first, whatever the clocks show, as long as they run at the same
// rate (as DynamoDB's lock client and Kubernetes' leader election do). A
// client that has never seen a resource waits a whole TTL before it takes it from
// a holder that died, less what others have waited already, and less what the store
// knows of the document's age (Doc.Age). Clients that live shorter than that leave a
// witness for each other in the store, if it has some (a WitnessStore). Marks, tombstones and tokens need a time of
// day, for which the engine uses this machine's: keep the clocks of clients within a
// minute of each other there.
package cas
