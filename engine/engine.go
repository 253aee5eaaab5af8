// Package engine is the contract between the Holdfast client and whatever
// stores the queue of a resource: one Redis, a quorum of nodes, or memory.
//
// An engine keeps, for each resource, a weighted first-come-first-served queue
// of leases, as package internal/queue specifies it. All times inside an engine
// are its own: requests carry durations, never instants, and answers likewise.
//
// # Rules every engine obeys
//
//   - Idempotent by holder ID. A request that is sent twice has the effect of
//     one; a repeated Acquire of a live lease returns the same token and counts
//     as a renewal, a repeated Release still answers that it was released.
//   - Bounded by ctx. Every call returns soon after its ctx ends, also when the
//     store hangs. What was sent may still take effect: the outcome is unknown.
//     A call whose ctx never ends is bounded by the engine's own timeouts. A call
//     whose ctx has ended already does nothing and is ErrUnavailable.
//   - An ended holder ID never comes back: after its lease expired, was broken
//     or was withdrawn, Acquire answers ErrEnded.
//   - A resource may be marked as done for a time, by the grant of a lease or by
//     its release, for work that must be done once. Present leases go on, but
//     nobody is granted or queued until the mark ends; those who wait when it
//     begins are sent away. A mark outlives its lease, also one that expired or
//     was broken; it never becomes shorter, and ends before its time only if an
//     operator breaks it (MarkID) or the store loses its data.
//   - Wake-ups are hints and may be lost. Correctness never depends on one.
//
// The package imports the standard library only; package enginetest holds the
// suite that every engine passes.
package engine

import (
	"context"
	"iter"
	"time"
)

// Engine stores queues of leases. It is safe for concurrent use.
type Engine interface {
	// Acquire asks for a lease, or asks again about one: the holder ID decides.
	// A waiter that does not ask again within WaiterLife is dropped.
	// Errors: ErrEnded, ErrMismatch, ErrTooHeavy, ErrBallot, ErrDenied,
	// ErrUnavailable (outcome unknown).
	Acquire(ctx context.Context, r Request) (Answer, error)

	// Renew extends leases, each to its TTL from now, in one batch. The result
	// has one error for each renewal, in order: nil, *NotHeldError, ErrDenied
	// or ErrUnavailable (outcome unknown).
	Renew(ctx context.Context, batch []Renewal) []error

	// Release gives a lease back, or leaves the queue, and grants what became
	// free to those at the front. It returns nil also when an earlier copy of
	// the same release had done it; then it does not mark again. A lease whose
	// TTL is over is given back as well, if no operation has ended it since:
	// nobody had it meanwhile. A lease that is breaking is given back too, but
	// marks nothing, and the answer is that it was broken. Errors: *NotHeldError, ErrDenied, ErrUnavailable
	// (outcome unknown).
	Release(ctx context.Context, r Release) error

	// Resize lowers the weight of a lease, from 1 to its present weight, and
	// grants what that frees to those at the front in the same step. The lease
	// keeps its token and its deadline. The weight that it has already is no
	// change, so a copy of the request hurts nobody. Errors: *NotHeldError,
	// ErrTooHeavy (any other weight), ErrDenied, ErrUnavailable (outcome
	// unknown).
	Resize(ctx context.Context, res Resource, h Held, weight int) error

	// Snapshot returns who holds and who waits, in grant and queue order. A
	// resource that nobody uses gives an empty snapshot, not an error. A long one
	// may be read in parts and is then not of one instant: nobody is in it twice,
	// and whoever holds or waits all the time that it takes is in it.
	Snapshot(ctx context.Context, res Resource) (Snapshot, error)

	// Peek returns the state of a resource in brief. Its cost does not grow with
	// the number of holders and waiters. A resource that nobody uses gives an empty
	// Brief, not an error.
	Peek(ctx context.Context, res Resource) (Brief, error)

	// List yields a snapshot of every resource that somebody holds or waits for below prefix whose name
	// matches the pattern (see Match), in no order. It ends at the first error.
	List(ctx context.Context, prefix, pattern string) iter.Seq2[Snapshot, error]

	// Break ends a lease or a wait by an operator's will and tells its client;
	// or, with MarkID, the mark of the resource. A wait ends at once. A lease is
	// breaking from then on: it cannot be renewed, its ID has ended, and it counts
	// against the capacity until its holder releases it or its TTL is over; a
	// further Break does no harm. By force a lease ends at once. Errors:
	// *NotHeldError if the holder ID neither holds nor waits, or there is no
	// mark; ErrDenied, ErrUnavailable (outcome unknown).
	Break(ctx context.Context, res Resource, b Break) error

	// Now reads the store's clock, so that clients whose own clocks differ agree
	// on the time of day. Where the store is several servers it is that of any
	// one of them. Errors: ErrDenied, ErrUnavailable.
	Now(ctx context.Context) (time.Time, error)

	// Listen opens the stream of wake-ups for one client and returns once it is
	// live: a wake-up sent after that reaches deliver unless a connection is
	// lost, and after such a loss deliver gets a Resync. A break may be told more
	// than once. deliver must be quick and must not call the engine. The stream ends by Listener.Close.
	Listen(ctx context.Context, prefix string, client string, deliver func(Wakeup)) (Listener, error)

	// Leave tells the engine that a client is closed, so that it can drop what
	// it keeps for that client. The client's leases and waits are not touched.
	Leave(client string)
}

// Listener is an open stream of wake-ups.
type Listener interface {
	// Close ends the stream. When it returns, deliver will not be called again
	// and the goroutines of the stream are gone.
	Close() error
}

// Resource names the thing that is locked. Prefix separates applications that
// share a store.
type Resource struct {
	Prefix, Name string
}

// Kind says which primitive a resource serves; while a resource is in use, or marked, its
// kind and capacity are fixed.
type Kind string

// The kinds of resource.
const (
	KindMutex     Kind = "mutex"
	KindRW        Kind = "rw"
	KindSemaphore Kind = "semaphore"
	KindElection  Kind = "election" // of capacity 1, as a mutex
	KindJob       Kind = "job"      // of capacity 1, as a mutex; its resource is marked as done
	KindCond      Kind = "cond"     // everybody who waits for the condition holds 1 of many; see Peek
	KindLatch     Kind = "latch"    // of capacity 1, as a mutex; see holdfast.Latch
)

// Timing of the protocol, the same for every engine.
const (
	// PollInterval is how often a waiter asks again.
	PollInterval = time.Second
	// WaiterLife is how long a waiter stays in the queue after it last asked.
	WaiterLife = 3 * time.Second
	// ClaimWindow bounds the TTL of a lease that was granted to a waiter that
	// did not ask at that moment; its first renewal extends it to the full TTL.
	ClaimWindow = 3 * time.Second
	// MaxBallotAhead is how far a ballot may lie ahead of the store's clock.
	MaxBallotAhead = 24 * time.Hour
)

// Client identifies a client to operators. It does not change in its life.
type Client struct {
	ID   string // random; the part of a holder ID before the dot
	Name string // program or service
	Host string
	PID  int
}

// Request asks for a lease.
type Request struct {
	Resource Resource
	ID       string // holder ID: client ID, a dot, a random attempt
	Client   *Client
	Kind     Kind
	Capacity int
	Weight   int
	TTL      time.Duration
	// Queue joins the queue if the lease cannot be granted now.
	Queue bool
	// Reserve is how many tokens above the granted one are set aside for the
	// holder to hand out itself.
	Reserve uint64
	// Mark marks the resource as done for so long, counted from the grant. Zero
	// does not.
	Mark time.Duration
	// Ballot proposes the token; the engine grants only if it is above every
	// token before. Zero lets the engine choose. A ballot is one vote of several, so
	// it is never granted later: with Queue and a Turn it is answered Busy, and waits
	// for a wake-up that says when to propose again; else it does not wait.
	Ballot uint64
	// Turn is how a ballot waits: by an ID that never holds, and at a place, its Token,
	// in the order of which ballots are served. Attempts that wait without a ballot are
	// served before. When the turn is at the front and can be granted, its client is
	// sent one Resync with the turn's ID. It waits until the turn's next ballot is
	// granted, Release takes its ID out, or it has not asked for WaiterLife. A ballot
	// without an ID passes those at this place or behind it, and does not wait.
	Turn Held
	// Reason is shown to operators.
	Reason string
	// Yields is a lease of the same resource that is released in the same step,
	// before this request is looked at.
	Yields Held
}

// Held names a lease by holder ID and token.
type Held struct {
	ID    string
	Token uint64
}

// Status is the kind of an Answer.
type Status uint8

// What Acquire may answer.
const (
	// Granted: the lease is held; Token and TTL are set.
	Granted Status = iota + 1
	// Queued: the request waits; Position, Next and perhaps Last are set.
	Queued
	// Busy: not granted, and Queue was not set; Holder, Next, Waiters are set.
	Busy
	// Outbid: the ballot is not above the last token, or too old; Last is set.
	// A ballot above that Last is not refused for its age, however late it comes.
	Outbid
	// Marked: the resource is marked as done; Next is the time until the mark
	// ends. The request is not queued, and not any more if it was.
	Marked
)

func (s Status) String() string {
	switch s {
	case Granted:
		return "granted"
	case Queued:
		return "queued"
	case Busy:
		return "busy"
	case Outbid:
		return "outbid"
	case Marked:
		return "marked"
	}
	return "status?"
}

// Answer is what Acquire found.
type Answer struct {
	Status Status
	// Token is the fencing token of the grant.
	Token uint64
	// TTL is what is left of the lease at the moment of the answer. The holder
	// counts it from the moment it sent the request.
	TTL time.Duration
	// Position is the number of waiters ahead, also of a ballot's turn.
	Position int
	// Next is the time until the first of the present leases ends, if it is
	// not renewed; of a marked resource, until the mark ends. To a ballot's turn
	// it is less if the first in line could be granted and has died by then.
	Next time.Duration
	// Holder is one of the present holders; zero if the request is kept out by
	// waiters only.
	Holder Holder
	// Waiters is the length of the queue.
	Waiters int
	// Last is the highest token given so far, of an outbid ballot at least the
	// store's time. Of a granted one it is the place of the last turn that waits, 0 if
	// none does. Of a queued request it may be left out; a pushed grant at or below it is one that the store has forgotten.
	Last uint64
}

// Renewal extends one lease.
type Renewal struct {
	Resource Resource
	Held
	TTL time.Duration
}

// Release gives one lease back or leaves the queue.
type Release struct {
	Resource Resource
	Held     // Token is 0 for an attempt that was never granted
	// Withdraw makes the store refuse this holder ID from now on, since copies
	// of its Acquire may still be under way. It answers nil whatever it finds.
	Withdraw bool
	// Mark marks the resource as done for so long, in the same step, if the
	// holder ID still has its lease. Zero does not.
	Mark time.Duration
}

// Break names what an operator ends.
type Break struct {
	ID string // holder ID, or MarkID
	// Token is that of the lease, if a Peek has just shown it; else 0. Some engines
	// find the lease sooner by it.
	Token uint64
	// Force ends a lease at once, although its holder may still act.
	Force bool
}

// MarkID stands for the mark of a resource where Break takes a holder ID.
const MarkID = "mark"

// Snapshot is the state of a resource.
type Snapshot struct {
	Resource Resource
	Kind     Kind
	Capacity int
	Token    uint64        // highest token given so far, reserved ones included
	Marked   time.Duration // what is left of the mark; 0: it is not marked
	Holders  []Holder
	Waiters  []Waiter
}

// MaxPeeked is the most holders that a Brief has.
const MaxPeeked = 8

// Brief is the state of a resource as Peek returns it.
type Brief struct {
	Resource Resource
	Kind     Kind
	Capacity int
	Token    uint64        // as in Snapshot
	Marked   time.Duration // as in Snapshot
	// Holders are the holder of a capacity of 1, or the oldest of a KindCond that are
	// not breaking, in grant order. Of any other kind it is empty. Of their clients only the ID is set.
	Holders []Holder
	More    bool // there may be holders that are not in Holders
	Waiting int  // length of the queue, with waiters that died and were not dropped yet
}

// Holder is a party with a live lease.
type Holder struct {
	ID     string
	Client Client
	Reason string
	Weight int
	Token  uint64
	Since  time.Time // by the store's clock, for people only
	TTL    time.Duration
	// Breaking: an operator broke the lease, and its holder has not released it yet.
	Breaking bool
}

// Waiter is a party in the queue.
type Waiter struct {
	ID     string
	Client Client
	Reason string
	Weight int
	Since  time.Time // by the store's clock, for people only
}

// WakeupKind says what a wake-up is about.
type WakeupKind uint8

// The kinds of wake-up.
const (
	// WakeGrant: the waiter ID was granted Token for TTL, counted from some
	// moment after its last acknowledged Acquire. A TTL of 0 means that it has to
	// ask again before it may rely on the grant.
	WakeGrant WakeupKind = iota + 1
	// WakeBroken: an operator ended the wait ID, or broke the lease ID, which its
	// holder has to release.
	WakeBroken
	// WakeMarked: the waiter ID was sent away, since the resource was marked as
	// done for TTL.
	WakeMarked
	// Resync: wake-ups may have been lost; every waiter should ask again, or the
	// waiter ID alone if one is given.
	Resync
)

// Wakeup is a message to one client.
type Wakeup struct {
	Kind  WakeupKind
	ID    string
	Token uint64
	TTL   time.Duration
}
