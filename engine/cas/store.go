package cas

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// ErrOneOfMany is wrapped by the error of a Read or Swap of several documents if the cause may be one of them alone, as a
// right that is missing for its key. The engine then makes smaller calls. Of the changes, some may have been made.
var ErrOneOfMany = errors.New("one of several documents is the cause")

// OneOfMany returns an error with the text of err that wraps err and ErrOneOfMany.
func OneOfMany(err error) error { return ofOne{err} }

type ofOne struct{ error }

func (e ofOne) Unwrap() []error { return []error{e.error, ErrOneOfMany} }

// A DocumentStore keeps documents and changes them by compare-and-swap. An Engine runs
// on it; package castest has the tests that every DocumentStore passes. It is safe for
// concurrent use.
//
// Every call returns soon after its ctx ends; a change may still take effect
// later. An error that a retry cannot resolve (credentials, rights, a missing
// table) wraps engine.ErrDenied; any other error means that the store was not
// available, and that the outcome of a change is unknown.
type DocumentStore interface {
	// Read returns the document of each key, in order, as it is at a moment
	// after the call began. It never returns an older one, from a replica or a
	// cache.
	Read(ctx context.Context, reads []Read) ([]Doc, error)

	// Swap makes each change, or none if the document is not the expected one.
	// The changes are independent of each other and have different keys. It
	// returns an outcome for each, in order. When it returns, changes that were
	// made are durable, unless they are Relaxed.
	//
	// A store whose documents others can lock, as rows of a table, waits for a short time for
	// one that is locked. Its outcome is then Locked, and the engine makes its change again, beside others.
	Swap(ctx context.Context, changes []Change) ([]Outcome, error)

	// Keys yields the keys of all documents of a kind below a prefix, in no
	// particular order, and ends at the first error. Documents that appear or
	// disappear meanwhile may be missing. The loop may call the store: while it
	// runs, Keys keeps no connection and no lock.
	Keys(ctx context.Context, space Space, prefix string) iter.Seq2[Key, error]

	// Listen opens the stream of messages to an address and returns once it is
	// live. resync is called if messages may have been lost, and by a store
	// that does not deliver messages, from time to time. Neither function is
	// called any more once Close has returned. They return quickly.
	Listen(ctx context.Context, to Address, deliver func(body []byte), resync func()) (io.Closer, error)
}

// A TimedStore is a DocumentStore with a clock that all its clients can read. Leases then end
// at instants of it: every Doc and Outcome has the time at which it was read or
// made. On a DocumentStore that is no TimedStore a client measures the time of each lease
// from the moment at which it received the lease's latest renewal.
type TimedStore interface {
	DocumentStore

	// Now returns the time of the store's clock at a moment of the call.
	Now(ctx context.Context) (time.Time, error)
}

// A WitnessStore is a DocumentStore without a clock that can prove that a duration has passed, also to
// processes that started later. A witness is a record that the store deletes after that duration. If an
// operation ends without the lease, the engine may make a witness for the lease that it has read, and writes
// its name into the document. If the witness has vanished and the lease was not renewed, the duration has passed.
type WitnessStore interface {
	DocumentStore

	// Witness makes a witness. It returns its name, of at most 64 bytes and different from that of
	// any other witness, and its minimum lifetime: d, or less if the store's maximum is shorter. The
	// lifetime starts at a moment of the call and runs on monotonic clocks of the servers; it may
	// start again when servers change. The witness vanishes soon after it, and nothing else
	// ends it. After an error a witness may exist; it is not used.
	Witness(ctx context.Context, prefix string, d time.Duration) (name string, lasts time.Duration, err error)

	// Witnesses returns the states of witnesses below a prefix, in the order of their names. Witness has returned
	// all of these names before the call, on this store or on one from which documents were copied.
	Witnesses(ctx context.Context, prefix string, names []string) ([]WitnessState, error)
}

// A WitnessState is the state of a witness.
type WitnessState byte

// The states.
const (
	WitnessStands   WitnessState = iota // it is there
	WitnessVanished                     // its time is over
	WitnessForeign                      // it is of another store, or a copy of one: it proves nothing, now and later
)

// A LaggingStore is a DocumentStore of which a Read may, rarely, return a document that was replaced
// before the call began. Nothing that excludes others follows from its reads: a
// waiter does not rely on a message of its grant together with an earlier poll, and
// repeats its request, which is a Swap.
type LaggingStore interface {
	DocumentStore

	// ReadsMayLag marks the type.
	ReadsMayLag()
}

// A PacedStore is a DocumentStore that looks for messages, at intervals that depend on
// how soon one may come.
type PacedStore interface {
	DocumentStore

	// Waits is called whenever a waiter of a client was answered, with the number of
	// waiters ahead of it, and with -1 when it does not wait any more. A waiter is
	// answered at least each engine.WaiterLife. Waits returns quickly.
	Waits(client Address, holderID string, ahead int)
}

// A Space separates the documents of an Engine.
type Space byte

// The spaces.
const (
	Resources Space = 'r' // the queue of a resource, by the resource's name
	Clients   Space = 'c' // when a client last had a waiter that polled, by the client's ID
	Knocks    Space = 'k' // that others cannot join, by the resource's name
	Histories Space = 'h' // what clients have recorded, by time and writer
)

// A Key identifies a document. Prefix and Name are UTF-8 of at most 512 bytes
// each, which may contain any character, NUL included, and are compared byte by
// byte.
type Key struct {
	Space        Space
	Prefix, Name string
}

// A Read requests a document.
type Read struct {
	Key Key
	// Rev is a revision that the caller has. If the document is that one, the
	// store may leave Value out and set Unchanged.
	Rev uint64
}

// A Doc is a document as the store has it.
type Doc struct {
	// Rev is the revision of the document, which no other content of this key
	// ever has, even if the document was deleted meanwhile. 0: there is none.
	Rev       uint64
	Value     []byte
	Unchanged bool // it is the revision that the Read contains; Value may be missing
	// At is the time of the store's clock at a moment of the call at which the
	// document was this one. Only a TimedStore sets it.
	At time.Time
	// Age is the time since a moment of the call that made the document, or less, on a
	// clock that is never set. A store that does not know it leaves it 0, and a TimedStore
	// needs none: it saves a client that sees a resource for the first time the wait for
	// the TTL of a lease whose holder died earlier.
	Age time.Duration
}

// A Change replaces the document of a key if its revision is Rev.
type Change struct {
	Key   Key
	Rev   uint64 // 0: there must be no document
	Value []byte
	// Keep is for how long the store keeps the document, counted from the
	// change. It may delete it after that, or keep it.
	Keep time.Duration
	// Relaxed: the change may be lost if the store crashes.
	Relaxed bool
	// Marks: the change begins or ends a mark, which outlives holders and waiters.
	Marks bool
	// Messages are sent when the change was made, and are hints: they may be
	// lost or arrive twice. There may be thousands.
	Messages []Message
}

// An Outcome is the result of a Change.
type Outcome struct {
	Swapped bool
	// Locked: the change was not made, and Doc is not set, since somebody else has locked the document.
	Locked bool
	// Doc is the document after the change, of which Value may be missing, or,
	// if it was not made, the document that is there instead.
	Doc Doc
}

// An Address is the receiver of messages: a client below a prefix.
type Address struct {
	Prefix, Client string
}

// A Message is a wake-up in transit: a body of printable ASCII, without newline,
// of at most 4 KiB.
type Message struct {
	To   Address
	Body []byte
}
