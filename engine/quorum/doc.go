// Package quorum makes one engine of several independent ones, its nodes: a lease
// is held when a majority of them has granted it, so locks work while a minority
// is dead, hung or cut off, and no failover can grant a lock twice.
//
//	e := quorum.New(goredis.New(a), goredis.New(b), goredis.New(c))
//
// The nodes are three or five servers that are independent of each other: not the
// masters of one cluster, and not a master and its replicas. All processes use the
// same nodes; their number is fixed while locks are in use. Every node must keep what
// it has granted: a node that restarts empty can vote twice, so it must write each
// change to disk (appendfsync always) or stay down for longer than the longest TTL.
//
// # Calls and outcomes
//
// Each operation calls its nodes at once and returns with the first majority that
// makes its outcome certain. It does not wait for late answers; what they granted is
// released in the background. A node that is silent, or fails, is not called if the
// others suffice, and is tried again after a backoff of at most a second.
//
// A lease of a resource of capacity 1 is requested on a majority first, the same one in all
// processes. The other nodes are its spares: they are called if a node of the majority fails or
// lags, and when the lease has been held for 10 ms. On one that refuses it then, a renewal
// restores it.
//
// # Tokens
//
// A ballot proposes a token: above every token that this process has seen, and at least
// the time in microseconds. A node grants only if the resource is free and the token is
// above the last that it granted. Two majorities have a node in common, so tokens are
// unique and increase in grant order, whatever majorities granted them and whatever
// expired in between.
//
// # Shared capacity
//
// A reader and a writer need a majority each, so they cannot hold together. Of a
// semaphore of capacity c on N nodes, majorities alone would admit more than c: a
// lease needs more than N·c/(c+1) nodes, which is all of them if c ≥ N. It is exact,
// and it is unavailable when too many nodes are down.
//
// # Waiting
//
// A node cannot grant to a waiter, since it is one vote of several. So an attempt
// that waits puts a turn into the queue of each node that it calls, at a place that is the same on all
// nodes: the token that it proposed first. No request passes the turn at the front, so
// a writer, a heavy request, or a process that acquires seldom does not starve. When the
// resource is free, the node calls the turn at the front: it sends a wake-up to the
// client, which proposes again. A ballot renews the turn each second; after 3 s without a
// ballot the node removes it. Exclusion does not depend on turns: a lost call delays the
// waiter by a second, and a wrong place changes the order.
//
// Of the waiters of one process only the first has a turn. Each of the others is woken
// when it becomes the first.
//
// # Two nodes
//
// A majority of two nodes is both. So a quorum of an old and a new store is the intermediate
// release when a fleet moves from one to the other: it excludes, and is excluded by,
// clients that use either store alone, and tokens increase across all of them. A mark that is
// on half of an even number of nodes excludes every lease, so it is a mark. See docs/MIGRATING.md.
//
// # Not promised
//
// Fairness towards clients that use one node directly: a node grants their requests before
// those of all turns.
//
// First come, first served: places are times of the clients' clocks, and a client whose
// clock is behind overtakes waiters once, until it is granted and receives their places.
// Snapshots show holders, but no waiters.
//
// # The way of one Acquire, Renew and Release
//
// Acquire:
//  1. Engine.Acquire (acquire.go) finds the attemptState of the holder ID (attempts.go).
//     For a waiter that is not the first of its process it returns Queued (wait_local.go).
//  2. runBallots (acquire_ballot.go) takes a token (tokens.go) and runs ballots until the
//     outcome is clear. ballot adds the turn of a waiter (wait_turn.go).
//  3. propose (lease.go) makes a quorumLease and calls its voters (acquire_voters.go), then its
//     spares if need be: fanOut.send (node_fanout.go), dispatcher.send (node_dispatcher.go), selectNodes (node.go).
//  4. recordAnswer (lease_node.go) records each answer; decide (lease_votes.go) ends the wait.
//  5. Granted: attemptState.setLease; a TTL of more than a minute (acquire_long.go) and a
//     mark (acquire_mark.go) take one more call. A lease that lasts is requested on its spares
//     (lease_spread.go). Otherwise withdraw; refusal returns the answer.
//
// Renew: findLease (lease_lookup.go), renewAll (renew.go) with one call of each node for the
// whole batch, a tally (node_tally.go) of each lease, and restore (lease_restore.go) where a
// node does not have it.
//
// Release: Engine.Release (release.go) takes the waiter out of its queues; releaseLease calls
// the nodes. If a node does not confirm, scheduleSync (lease_sync.go) repeats the call through
// the node's outbox (node_outbox.go), until the node is in the state of nodeLease (lease_node.go).
package quorum
