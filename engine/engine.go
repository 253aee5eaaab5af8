// Package engine is the contract between the Holdfast client and a store of
// queues: one Redis, a quorum of nodes, or memory.
//
// An engine keeps, for each resource, a weighted first-come-first-served queue
// of leases, as package internal/queue specifies it. All times inside an engine
// are its own: requests and answers contain durations, never instants.
//
// # Rules for every engine
//
//   - Idempotent by holder ID. A request that is sent twice has the effect of
//     one. A repeated Acquire of a live lease returns the same token and counts
//     as a renewal; a repeated Release returns nil again.
//   - Bounded by ctx. Every call returns soon after its ctx ends, even if the
//     store hangs. The request may still take effect: the outcome is unknown. A
//     call whose ctx never ends is bounded by the engine's own timeouts. A call
//     whose ctx has already ended does nothing and returns ErrUnavailable.
//   - An ended holder ID is never valid again. After its lease expired, or was
//     broken or withdrawn, Acquire returns ErrEnded.
//   - A resource may be marked as done for a time, by the grant of a lease or
//     by its release, for work that must be done once. Present leases continue,
//     but nothing is granted or queued until the mark ends, and waiters are
//     removed when it begins. A mark outlives its lease, even one that expired
//     or was broken. It never becomes shorter, and ends early only if an
//     operator breaks it (MarkID) or the store loses its data.
//   - Wake-ups are hints and may be lost. Correctness never depends on one.
//
// The package imports only the standard library. Package enginetest contains
// the conformance tests that every engine passes.
package engine

import (
	"context"
	"iter"
	"time"
)

// An Engine stores queues of leases. It is safe for concurrent use.
type Engine interface {
	// Acquire requests a lease, or repeats a request for one; the holder ID
	// identifies it. A waiter that does not repeat its request within
	// WaiterLife is removed. Errors: ErrEnded, ErrMismatch, ErrTooHeavy,
	// ErrBallot, ErrDenied, ErrUnavailable (outcome unknown).
	Acquire(ctx context.Context, r Request) (Answer, error)

	// Renew extends leases in one batch, each to its TTL from now. It returns
	// one error for each renewal, in order: nil, *NotHeldError, ErrDenied or
	// ErrUnavailable (outcome unknown).
	Renew(ctx context.Context, batch []Renewal) []error

	// Release releases a lease, or leaves the queue, and grants the freed
	// capacity to the waiters at the front. It also returns nil if an earlier
	// copy of the same release had done it, and then does not mark again. A
	// lease whose TTL is over is released as well, if no operation has ended it
	// since: nothing else was granted meanwhile. A breaking lease is released
	// too, but it sets no mark and the error says that it was broken. Errors:
	// *NotHeldError, ErrDenied, ErrUnavailable (outcome unknown).
	Release(ctx context.Context, r Release) error

	// Resize lowers the weight of a lease to a value from 1 to its present
	// weight, and grants the freed capacity to the waiters at the front in the
	// same step. The lease keeps its token and its deadline. The present weight
	// changes nothing, so a repeated request is harmless. Errors:
	// *NotHeldError, ErrTooHeavy (any other weight), ErrDenied, ErrUnavailable
	// (outcome unknown).
	Resize(ctx context.Context, res Resource, h Held, weight int) error

	// Snapshot returns the holders and waiters, in grant and queue order. For a
	// resource that is not in use it returns an empty snapshot and no error. A
	// long one may be read in parts and then does not show one instant, but it
	// contains each holder and waiter at most once, and all that hold or wait
	// throughout the call.
	Snapshot(ctx context.Context, res Resource) (Snapshot, error)

	// Peek returns the state of a resource in brief. Its cost does not grow
	// with the number of holders and waiters. For a resource that is not in use
	// it returns an empty Brief and no error.
	Peek(ctx context.Context, res Resource) (Brief, error)

	// List yields a snapshot of every resource below prefix that has holders or
	// waiters and whose name matches the pattern (see Match), in no particular
	// order. It ends at the first error.
	List(ctx context.Context, prefix, pattern string) iter.Seq2[Snapshot, error]

	// Break ends a lease or a wait on behalf of an operator and sends its
	// client a wake-up; with MarkID it ends the mark of the resource. A wait
	// ends at once. A lease becomes breaking: it cannot be renewed, its ID has
	// ended, and it counts against the capacity until its holder releases it or
	// its TTL is over; to break it again does no harm. With Force a lease ends
	// at once. Of several breaks the latest Reason counts. Errors: *NotHeldError if the holder ID neither holds nor waits,
	// or there is no mark; ErrDenied, ErrUnavailable (outcome unknown).
	Break(ctx context.Context, res Resource, b Break) error

	// Now returns the time of the store's clock, so that clients whose own
	// clocks differ agree on the time of day. If the store is several servers,
	// it is the time of any one of them. Errors: ErrDenied, ErrUnavailable.
	Now(ctx context.Context) (time.Time, error)

	// Listen opens the stream of wake-ups for one client and returns once it is
	// live: a wake-up sent after that reaches deliver unless a connection is
	// lost, and after such a loss deliver gets a Resync. A break may be
	// delivered more than once. deliver must return quickly and must not call
	// the engine. Listener.Close ends the stream.
	Listen(ctx context.Context, prefix string, client string, deliver func(Wakeup)) (Listener, error)

	// Leave discards what the engine keeps in memory for a client that is
	// closed. The client's leases and waits are not affected.
	Leave(client string)
}

// A Listener is an open stream of wake-ups.
type Listener interface {
	// Close ends the stream. When it returns, deliver is not called again and
	// the goroutines of the stream have ended.
	Close() error
}

// A Resource is the name of what is locked. Prefix separates applications that
// share a store.
type Resource struct {
	Prefix, Name string
}

// A Kind is the primitive that a resource serves. While a resource is in use,
// or marked, its kind and capacity are fixed.
type Kind string

// The kinds of resource.
const (
	KindMutex      Kind = "mutex"
	KindRW         Kind = "rw"
	KindSemaphore  Kind = "semaphore"
	KindElection   Kind = "election"    // of capacity 1, as a mutex
	KindJob        Kind = "job"         // of capacity 1, as a mutex; its resource is marked as done
	KindCond       Kind = "cond"        // each waiter of the condition holds one unit of many; see Peek
	KindLatch      Kind = "latch"       // its holder's weight contains the count; see holdfast.Latch
	KindLatchUnits Kind = "latch-units" // the counts of a latch, which are never released
)

// Timing of the protocol, the same for every engine.
const (
	// PollInterval is how often a waiter repeats its request.
	PollInterval = time.Second
	// WaiterLife is how long a waiter stays in the queue after its latest
	// request.
	WaiterLife = 3 * time.Second
	// ClaimWindow bounds the TTL of a lease that is granted to a waiter between
	// its requests. Its first renewal extends it to the full TTL.
	ClaimWindow = 3 * time.Second
	// MaxBallotAhead is how far a ballot may be ahead of the store's clock.
	MaxBallotAhead = 24 * time.Hour
)

// A Client identifies a client to operators. It never changes.
type Client struct {
	ID   string // random; the part of a holder ID before the dot
	Name string // program or service
	Host string
	PID  int
}

// A Request is a request for a lease.
type Request struct {
	Resource Resource
	ID       string // holder ID: client ID, a dot, a random attempt
	Client   *Client
	Kind     Kind
	Capacity int
	Weight   int
	TTL      time.Duration
	// Queue makes the request join the queue if the lease cannot be granted
	// now.
	Queue bool
	// Reserve is the number of tokens above the granted one that are reserved
	// for the holder's local hand-offs.
	Reserve uint64
	// Mark marks the resource as done for this time, counted from the grant. Zero
	// does not.
	Mark time.Duration
	// Ballot proposes the token: the engine grants only if it is above every
	// earlier token. Zero lets the engine choose. A ballot is one vote of
	// several, so it is never granted later: with Queue and a Turn the answer
	// is Busy, and a wake-up says when to propose again; otherwise it does not
	// wait.
	Ballot uint64
	// Turn is how a ballot waits: under an ID that never holds, at a place, its
	// Token, in the order of which ballots are served. Requests that wait
	// without a ballot are served first. When the turn is at the front and can
	// be granted, its client is sent one Resync with the turn's ID. The turn
	// waits until its next ballot is granted, Release removes its ID, or it has
	// not repeated its request for WaiterLife. A ballot without an ID passes
	// the turns at its place or behind it, and does not wait.
	Turn Held
	// Reason is shown to operators. It may have any bytes, such as a span at its
	// end; an engine stores and returns it as it is.
	Reason string
	// Yields is a lease of the same resource that is released in the same step,
	// before this request is considered.
	Yields Held
}

// Held identifies a lease by holder ID and token.
type Held struct {
	ID    string
	Token uint64
}

// A Status is the kind of an Answer.
type Status uint8

// The results of Acquire.
const (
	// Granted: the lease is held; Token and TTL are set.
	Granted Status = iota + 1
	// Queued: the request waits; Position, Next and possibly Last are set.
	Queued
	// Busy: not granted, and Queue was not set; Holder, Next, Waiters are set.
	Busy
	// Outbid: the ballot is not above the last token, or too old; Last is set.
	// A ballot above that Last is not refused for its age, however late it arrives.
	Outbid
	// Marked: the resource is marked as done; Next is the time until the mark
	// ends. The request is not queued, or no longer.
	Marked
)

func (s Status) String() string {
	return nameOf(s, []string{
		"status?", Granted: "granted", Queued: "queued", Busy: "busy", Outbid: "outbid", Marked: "marked",
	})
}

// An Answer is the result of Acquire.
type Answer struct {
	Status Status
	// Token is the fencing token of the grant.
	Token uint64
	// TTL is the remaining time of the lease at the moment of the answer. The holder
	// counts it from the moment it sent the request.
	TTL time.Duration
	// Position is the number of waiters ahead of the request or of a ballot's turn.
	Position int
	// Next is the time until the first of the present leases ends, if it is
	// not renewed; for a marked resource, until the mark ends. For a ballot's turn
	// it is less if the first waiter could be granted and will be dropped by then.
	Next time.Duration
	// Holder is one of the present holders; zero if only waiters are ahead of
	// the request.
	Holder Holder
	// Waiters is the length of the queue.
	Waiters int
	// Last is the highest token given so far; for an outbid ballot, at least
	// the store's time. For a granted ballot it is the place of the last
	// waiting turn, or 0 if none waits. For a queued request it may be missing;
	// a pushed grant at or below it is one that the store has lost.
	Last uint64
}

// A Renewal is the extension of one lease.
type Renewal struct {
	Resource Resource
	Held
	TTL time.Duration
}

// A Release releases one lease or leaves the queue.
type Release struct {
	Resource Resource
	Held     // Token is 0 for an attempt that was never granted
	// Withdraw makes the store refuse this holder ID from now on, since copies
	// of its Acquire may still be in transit. Release then returns nil even if
	// there was no lease.
	Withdraw bool
	// Mark marks the resource as done for this time, in the same step, if the
	// holder ID still has its lease. Zero does not.
	Mark time.Duration
}

// A Break identifies what an operator ends.
type Break struct {
	ID string // holder ID, or MarkID
	// Token is the token of the lease, if a Peek has just returned it, or 0. Some
	// engines find the lease faster with it.
	Token uint64
	// Force ends a lease at once. Its holder can still write until it detects the
	// break; only fencing tokens reject those writes.
	Force bool
	// Reason is a text for the holder or waiter: it is in the wake-up, and in
	// every later answer that the lease or wait was broken.
	Reason string
}

// MarkID denotes the mark of a resource where Break takes a holder ID.
const MarkID = "mark"

// A Snapshot is the state of a resource.
type Snapshot struct {
	Resource Resource
	Kind     Kind
	Capacity int
	Token    uint64        // highest token given so far, reserved ones included
	Marked   time.Duration // time until the mark ends; 0: not marked
	// MarkedBy is the lease that set the mark, without TTL and Breaking; it may
	// have ended. Zero if there is no mark or the store has not recorded it.
	MarkedBy Holder
	Holders  []Holder
	Waiters  []Waiter
	// Dead are the entries of the queue that have not polled for WaiterLife, in queue order. The
	// engine grants them nothing, and deletes them later. Only Engine.Snapshot sets it, not List.
	Dead []Waiter
	// NoWaiters: the engine does not show waiters, so there may be some.
	NoWaiters bool
}

// MaxPeeked is the maximum number of holders in a Brief.
const MaxPeeked = 8

// A Brief is the state of a resource as Peek returns it.
type Brief struct {
	Resource Resource
	Kind     Kind
	Capacity int
	Token    uint64        // as in Snapshot
	Marked   time.Duration // as in Snapshot
	// Holders is the holder of a capacity of 1, or the oldest holders of a
	// KindCond that are not breaking, in grant order. For any other kind it is
	// empty. Only the ID of their Client is set.
	Holders []Holder
	More    bool // there may be holders that Holders does not contain
	Waiting int  // length of the queue, including dead waiters that are not dropped yet
}

// A Holder is the holder of a live lease.
type Holder struct {
	ID     string
	Client Client
	Reason string
	Weight int
	Token  uint64
	Since  time.Time // by the store's clock; for display only
	TTL    time.Duration
	// Breaking: an operator broke the lease, and its holder has not released it yet.
	Breaking bool
}

// A Waiter is a request in the queue.
type Waiter struct {
	ID     string
	Client Client
	Reason string
	Weight int
	Since  time.Time // by the store's clock; for display only
	// Silent is the time since the latest poll of a waiter that is Dead, as far as it is known; otherwise 0.
	Silent time.Duration
}

// A WakeupKind is the kind of a wake-up.
type WakeupKind uint8

// The kinds of wake-up.
const (
	// WakeGrant: the waiter ID was granted Token for TTL, counted from some
	// moment after its latest answered Acquire. With a TTL of 0 it must repeat
	// its request before it relies on the grant.
	WakeGrant WakeupKind = iota + 1
	// WakeBroken: an operator ended the wait ID, or broke the lease ID, which
	// its holder must release.
	WakeBroken
	// WakeMarked: the waiter ID was removed, since the resource was marked as
	// done for TTL.
	WakeMarked
	// Resync: wake-ups may have been lost. Every waiter should repeat its
	// request, or only the waiter ID if one is given. Every recallable lease
	// counts as wanted.
	Resync
	// WakeWanted: another request for the resource of the lease ID waits or was
	// refused. The lease is recallable; see RecallSuffix.
	WakeWanted
)

// A Wakeup is a message to one client.
type Wakeup struct {
	Kind   WakeupKind
	ID     string
	Token  uint64
	TTL    time.Duration
	Reason string // WakeBroken: of the break
}
