// Package etcd provides the etcd engine: it keeps the queues of Holdfast in etcd,
// through the caller's clientv3 client.
//
//	ec, err := clientv3.New(clientv3.Config{
//		Endpoints:            []string{"10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"},
//		DialKeepAliveTime:    10 * time.Second,
//		DialKeepAliveTimeout: 3 * time.Second,
//	})
//	c, err := holdfast.New(etcd.New(ec))
//
// Each resource is one key. An operation is one transaction on its revision; see
// package cas. It requires etcd 3.4 or newer.
//
// # What is promised
//
// A change is answered when a majority of the members has it on disk, so a grant
// survives the loss of a minority of the members, a change of the leader and a
// restart of all members. Reads are linearizable.
//
// etcd has no clock that clients can read. Each client measures the leases of other
// clients on its own monotonic clock, from the time at which it received them, and only
// the rates of clocks matter: wall clocks may be wrong. A client that has never read a
// resource waits a whole TTL before it takes it from a dead holder. If its operation ends
// earlier, it leaves a key with an etcd lease of its own. The end of that etcd lease shows
// a later client that the TTL has passed; it costs one grant and two further changes. Marks,
// which last for hours, and the times and the order of a history follow the wall clocks of
// the clients: keep these within a minute of each other.
//
// A lease of etcd is never the deadline of a lock. The other keys have one so that they
// vanish some time after their resource was used last, and one lease of etcd serves
// up to a thousand keys. It is never kept alive, so a lost session or a change of the
// leader removes nothing. If it is revoked, or keys are deleted, the leases of
// these resources are lost; their holders detect this at the next renewal, and fencing
// tokens still grow. Restore a backup with etcdutl's --bump-revision and
// --mark-compacted, and only while nothing is held: it forgets all later grants.
//
// # Wake-ups
//
// A wake-up is a key of the waiter's client, written in the transaction of the release
// and watched by the client. A watch continues at the revision where it was cut off; if
// that is compacted, every waiter polls. A watch that is silent for three seconds is checked,
// and opened again on another connection if it does not respond. Without wake-ups a
// waiter polls each second, which is a read.
//
// # Settings
//
// Set DialKeepAliveTime and DialKeepAliveTimeout of the client as above, without which
// gRPC does not notice for 15 minutes that a connection is dead: until then, each
// call that is made on it takes half a second longer, or fails if there is no other member. etcd
// refuses an interval below 5 s, and gRPC raises one below 10 s.
//
// Each change is a revision of the key, which etcd keeps until it is compacted. Set
// --auto-compaction-mode and --auto-compaction-retention, which are off by default:
// otherwise the database reaches its quota, and no change succeeds until an operator has
// compacted it and disarmed the alarm. A lock and its release are two revisions of
// some 300 bytes, and a renewal is one.
//
// With authentication, the user needs the permission readwrite on the range of keys
// that begin with "holdfast/", or with "holdfast/P/" if the client has
// holdfast.WithPrefix(P).
package etcd
