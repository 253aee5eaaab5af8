// Package zookeeper is an engine on ZooKeeper 3.5 or later: the locks of package holdfast for a
// team that runs an ensemble. It runs the queue of package cas on one document for each resource,
// over github.com/go-zookeeper/zk.
//
// # What is kept where
//
// Everything is below one root, /holdfast by default (WithRoot). A document is a znode, whose
// only child is named after the document's revision:
//
//	/holdfast/r/PREFIX/SHARD/NAME            the queue of a resource
//	/holdfast/r/PREFIX/SHARD/NAME/REVISION   its revision
//	/holdfast/c/PREFIX/SHARD/CLIENT          when a client with waiters last showed that it lives
//	/holdfast/h/PREFIX/SHARD/WRITTEN-…       a part of the history, if clients have WithHistory
//	/holdfast/inbox/PREFIX/CLIENT-SLOT       messages to a client; ephemeral
//	/holdfast/w/PREFIX/WITNESS               vanishes when a TTL has passed; ephemeral
//
// Names are escaped as in a URL. A change is one transaction, which deletes the znode of the
// revision that it replaces and makes that of the new one, a random number. So it fails if the
// document has changed, and also if it was deleted and made anew, which the version of a znode
// does not show (decision 0126). Documents that are not used any more are deleted by the
// clients, some after every 64th change on average; folders are container znodes, which the
// servers remove.
//
// # Durability
//
// A grant is answered when a majority of the ensemble has written it to disk. So it survives
// the loss of any minority, a change of the leader, and a restart of all servers, unless the
// servers run with forceSync=no. There is no faster, less durable way of writing.
//
// # Sessions
//
// Leases do not depend on the session of the connection: a lease is held until its TTL is
// over, whatever happens to the session, and is renewed over the next one. Only the
// inboxes and the witnesses (see "Time") are ephemeral. Inboxes are made again in the next session, and waiters then look for themselves.
//
// # Time
//
// ZooKeeper has no clock that clients can read. Leases are measured by each client on its own
// monotonic clock; see package cas. A client that lives shorter than the TTL of a lease that it finds held,
// and only tries, leaves an ephemeral znode of a session that it opens for that and never closes. When that session is over, by
// the leader's monotonic clock, a later client knows that so much time has passed. The session is opened on the
// server of the connection, by plain TCP and without credentials, unless WithDialer and WithAuth are given; if
// that fails, a dead holder is found only by clients that live for its TTL. A session lasts for at most maxSessionTimeout of
// the servers (20 ticks, 40 s by default): a longer TTL takes several. Marks, tombstones, tokens and the history use the clients' time of
// day: keep the clocks of clients within a minute of each other. Old documents are deleted by the clock of the leader:
// keep those of the servers within a minute of each other too.
//
// # Reads
//
// A read follows a sync, which takes one more round trip, and shows what was committed before it.
// The read of a document of which a message has just arrived needs none. There
// are two exceptions: a leader that has lost its majority answers for up to syncLimit ticks,
// until it notices; and a client of the leader itself may overtake a commit that the followers
// have already answered. Nothing that excludes others follows from reads: grants, renewals and
// releases are transactions, and a waiter that receives a message of its grant claims it by a
// transaction before it acts. An old read can show an old Snapshot, cost a waiter its place in
// the queue, let a signal miss a waiter that has just come, and make Wait and CountDown of a Latch
// see the round before the one that was set a moment ago.
//
// # Wake-ups
//
// A message is written in the transaction of its change, to one of four slots of the inbox of
// its client, which the client watches. If a slot was written twice before it was read, all waiters of
// the client look for themselves. If the inbox is missing, the change is made without it, by a
// second transaction. While the connection is down, waiters poll, each second.
//
// # Costs
//
// Lock and Release without contention are one transaction each. A poll is a sync and a read, of the
// revision alone if the document is large and has not changed; a
// client with waiters also writes one small document a second. A hand-off to another client
// is two transactions, the release with its message and the claim, and three if somebody has
// joined the queue since the holder's last change: a conflict is a transaction too, and the
// document that is there instead takes another round trip. A document has at most 512 KiB, some 5,000 waiters, below the limit of 1 MB that
// servers have by default (jute.maxbuffer).
//
// # Connection
//
// The calls of the connection have no ctx. The engine returns when a ctx ends; the call then goes
// on in a goroutine, of which there are at most 256, until the connection is lost. That takes up to
// two thirds of the session timeout; the handshake with a server that hangs takes up to 6.7 session
// timeouts, or one with Dialer. With Dialer and a session timeout of a third of the TTL, a server that
// hangs is replaced by another one before the lease is lost. A connection logs to standard error unless zk.WithLogger
// is given to zk.Connect.
package zookeeper
