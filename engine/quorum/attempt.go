package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// attemptState is the state of one holder ID in this process. The nodes only have its ballots,
// each under an ID of its own (lease_id.go).
type attemptState struct {
	attemptKey
	busy chan struct{} // full while an Acquire is under way

	mu       sync.Mutex
	leases   []*quorumLease // ballots that may be on a node, including the lease
	lease    *quorumLease   // nil: none
	deadline time.Time
	cause    engine.Cause // how the attempt ended; 0: it has not
	reason   string       // of the break that ended it
	queued   bool         // an Acquire has returned Queued
	turn     *turn        // in the queues of the nodes; nil: none
	maxNamed uint64       // the highest token in the ID of a ballot
	repeats  int          // number of ballots whose token was not above maxNamed
	used     time.Time    // when it was requested or withdrawn last
}

// lock admits one Acquire of this holder ID at a time.
func (a *attemptState) lock(ctx context.Context) error {
	select {
	case a.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

func (a *attemptState) unlock() { <-a.busy }

// idleFor returns how long ago the attempt was requested or withdrawn last.
func (a *attemptState) idleFor() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.used)
}

// status returns the lease, or how the attempt ended, or neither.
func (a *attemptState) status() (*quorumLease, engine.Cause) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lease, a.cause
}

// end records how the attempt ended, once.
func (a *attemptState) end(why engine.NotHeldError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cause == 0 {
		a.cause, a.reason = why.Cause, why.Reason
	}
}

// endedError returns the answer to a request after the attempt has ended.
func (a *attemptState) endedError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &engine.EndedError{Cause: a.cause, Reason: a.reason}
}

// isExpired reports whether an attempt can be removed: its lease has expired, and no ballot of it can
// be in flight. The cause is for its tombstone; 0: it needs none. The mutex is held.
func (a *attemptState) isExpired(now time.Time) (expired bool, cause engine.Cause) {
	last, cause := a.used, a.cause
	if a.deadline.After(last) {
		last = a.deadline
	}
	if cause == 0 && a.lease != nil && !a.deadline.IsZero() {
		cause = engine.CauseExpired
	}
	return now.Sub(last) > retryTimeout, cause
}

// nextLeaseID returns the ID of the next ballot on the nodes. A token may be proposed more
// than once, if the caller gave it or the clock was set back, and a node refuses the ID of a
// ballot that was withdrawn.
func (a *attemptState) nextLeaseID(r engine.Request) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Ballot > a.maxNamed {
		a.maxNamed = r.Ballot
		return leaseID(r.ID, r.Ballot)
	}
	a.repeats++
	return repeatedLeaseID(r.ID, r.Ballot, a.repeats)
}

// add records that a ballot has begun.
func (a *attemptState) add(t *quorumLease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leases = append(a.leases, t)
}

// setLease makes a ballot the lease; it returns false if the attempt was ended meanwhile.
func (a *attemptState) setLease(t *quorumLease, ttl time.Duration) bool {
	a.extend(t.sent, ttl)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cause == 0 {
		a.lease = t
	}
	return a.cause == 0
}

// extend records how long a majority keeps the lease.
func (a *attemptState) extend(sent time.Time, ttl time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if end := sent.Add(ttl); end.After(a.deadline) {
		a.deadline = end
	}
}

// isHeld reports whether a majority keeps the lease, by its grant and the renewals so far.
func (a *attemptState) isHeld() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cause == 0 && time.Now().Before(a.deadline)
}

// withdraw withdraws a ballot in the background. The latest few ballots with an unanswered
// call are kept for withdrawUnanswered; the others expire.
func (a *attemptState) withdraw(t *quorumLease) {
	t.withdraw()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lease == t {
		a.lease = nil
	}
	live := slices.DeleteFunc(a.leases, (*quorumLease).isSettled)
	a.leases = live[max(0, len(live)-4):]
}

// withdrawUnanswered calls quorumLease.withdrawUnanswered for each ballot.
func (a *attemptState) withdrawUnanswered() {
	a.mu.Lock()
	leases := slices.Clone(a.leases)
	a.mu.Unlock()
	for _, t := range leases {
		t.withdrawUnanswered()
	}
}
