// Package endure runs one client for long, under load and faults, and judges that nothing in it or in its
// store grows: heap, goroutines, open descriptors, connections, keys, memory of the server.
//
// Run starts a Redis with two replicas and three Sentinels, a process that is measured, and others that come,
// are killed, are stopped for longer than their TTL, and close. Each minute of the run, which may be scaled to
// less than a minute, the master fails over: by SIGKILL in one minute, by order of a Sentinel in the next. At
// the end of each minute the load rests, and when nothing is under way in the measured client a Sample is taken
// of it and of the store. So a sample does not depend on what happens to run. The store may also be three Redis
// servers as a quorum, of which one is killed and restarted with its data each minute.
//
// Judge decides from the samples after the warm-up, which is a sixth of the run: the tenth minute of an
// hour. Its comment states what counts as flat.
//
// # What is judged online
//
// Processes lock some resources against each other, and enter a guarded counter in a Redis of its own, the
// vault, under their fencing tokens. The vault finds a token that was given twice, a token below one that has
// entered although its holder was not notified, two open trust windows, and a lost update. Grants are
// confirmed by all replicas, so none of these may happen over a failover either.
//
// # The end
//
// When the client has closed, no goroutine of it is left, the store has no lease and no wait, no key is
// without a TTL or has a longer one than docs/PROTOCOL.md states, and no key has outlived its name: the
// measured process uses each name once, and its key says in which minute. A run that is longer than the
// life of a name also waits until all these keys are gone.
package endure
