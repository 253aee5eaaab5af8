// Package quorum makes one engine of several independent ones, its nodes: a lease
// is held when a majority of them has granted it, so locks go on while a minority
// is dead, hung or cut off, and no failover can hand a lock out twice.
//
//	e := quorum.New(goredis.New(a), goredis.New(b), goredis.New(c))
//
// The nodes are three or five servers that know nothing of each other: not the
// masters of one cluster, and no master with its replicas. Every process names the
// same nodes; their number is fixed while locks are in use. Every node keeps what it
// has granted: one that restarts empty can vote twice, so it has to write through
// (appendfsync always) or to stay away for longer than the longest TTL.
//
// # What is asked and what decides
//
// Each operation asks all nodes at once and is decided by the first majority that
// makes its outcome certain. Stragglers are never waited for; what they answer late
// is cleared up in the background. A node that is silent, or fails, is left out
// where the others suffice, and tried again at growing intervals of a second at most.
//
// # Tokens
//
// An attempt proposes its token: above every token it has heard of, and at least the
// time in microseconds. A node grants only if the resource is free and the token is
// above its last. Two majorities have a node in common, which gives each token once
// and only upwards: so tokens are unique and increase in grant order, whatever
// majorities gave them and whatever expired in between.
//
// # Shared capacity
//
// Of readers and a writer, each has a majority, so they cannot be in together. Of a
// semaphore of capacity c on N nodes, majorities alone would admit more than c: a
// lease needs more than N·c/(c+1) nodes, which is all of them if c ≥ N. It is exact,
// and it stops when so many nodes are away.
//
// # Waiting
//
// A node cannot grant to one who waits, since it is one vote of several. So an attempt
// that waits leaves a turn in the line of each node, at a place that all nodes order
// alike: the token that it proposed first. Nobody passes the turn at the front, so no
// writer and no heavy request starves, and no process by others that loop. When the
// resource is free the node calls that turn, and its client proposes again. A turn is
// asked for once a second; one that was not for 3 s is dropped. Exclusion depends on
// none of this: a call that is lost costs a second, and a place that is wrong an order.
//
// Of those who wait in one process the first has a turn; the others are told when they
// are first.
//
// # Not promised
//
// First come, first served: places come from the clocks of the clients, and a client
// whose clock is behind passes those who wait, once, until it is granted and learns of
// theirs. And that operators see who waits: snapshots show holders.
package quorum
