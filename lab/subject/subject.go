// Package subject puts every lock of the lab behind one small interface: the
// locks that people copy from articles, each written as faithfully as its
// article has it; Holdfast on each of its engines; and other Go libraries
// through their public API.
//
// A subject has points: moments between two of its steps at which the lab may
// stop, pause or kill the client. What an old lock promises and where it breaks
// stands in the head of its file, whose name is the subject's ID.
package subject

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

// Errors of clients and holds; test with errors.Is.
var (
	// ErrBusy: Try found that another holds the resource.
	ErrBusy = errors.New("another holds it")
	// ErrNotHeld: the lock says that the hold is not, or no longer, there.
	ErrNotHeld = errors.New("not held")
	// ErrNoRenewal: this lock cannot renew.
	ErrNoRenewal = errors.New("this lock has no renewal")
	// ErrDead: the client was killed at a point and does nothing any more.
	ErrDead = errors.New("the client is dead")
)

// Subject is a lock under test.
type Subject struct {
	// ID is the name in tables, the row of ALGORITHMS for an old lock.
	ID string
	// Title says in a few words what the lock does.
	Title string
	// Nodes is how many independent Redis servers it needs; 0: none, it runs on
	// Setup.Engine only.
	Nodes int
	// Traits tell what to expect of the lock.
	Traits Traits
	// Open makes a client. Errors are those of the setup, not of a server that
	// does not answer.
	Open func(Setup) (Client, error)
}

// Traits are what a lock offers beyond acquire and release.
type Traits struct {
	Tokens  bool // Hold.Token grows with each grant
	Fence   Fence
	Windows bool // Hold.Until is set
	Tells   bool // Hold.Lost is closed on a loss
	Renews  bool // Hold.Renew works
	Keeps   bool // renews by itself while it is held
	Points  bool // calls Setup.Point
}

// Fence says what the protected side does with the tokens of a lock.
type Fence uint8

// The fences. The last is that of package fence.
const (
	Unfenced Fence = iota // it sees no token
	OnWrites              // it refuses a write that is older than the last write
	OnClaims              // it refuses what is older than the last contact, reads included
)

// Setup is what one client of a subject gets.
type Setup struct {
	// Client is its name in histories and to operators.
	Client string
	// Nodes are connections of this client alone to the servers. They stay the
	// caller's, who closes them after the client.
	Nodes []*redis.Client
	// Engine replaces what Holdfast would make of Nodes: the memory engine, which
	// clients must share, or one with a planted bug. Other subjects ignore it.
	Engine engine.Engine
	// TTL of leases. Old locks that count in seconds do so in milliseconds here,
	// for the lab has no time; nothing else changes.
	TTL time.Duration
	// Retry is how long an old lock waits between two tries (default 5 ms).
	Retry time.Duration
	// Clock is the client's wall clock; nil: the machine's.
	Clock *Clock
	// Point is called between steps; nil: nothing is.
	Point Point
	// Renewed hears of each renewal that a lock of trait Keeps did by itself and
	// that moved the end of the trust window; nil: nobody.
	Renewed func(Renewal)
}

// Renewal is one that a lock did by itself.
type Renewal struct {
	Resource string
	Token    uint64
	Until    time.Time
}

// Point hears that a client has come to a step, such as "acquire.setnx": SETNX
// was answered, and nothing that follows was begun. It may take its time. If it
// returns an error the client does nothing more in this operation, not even a
// clean-up, and returns that error: that is what death looks like from outside.
type Point func(ctx context.Context, step string) error

// Client is one client of a lock. It is safe for concurrent use.
type Client interface {
	// Acquire waits until it holds the resource or ctx ends. Errors: that of ctx,
	// of the store or of a point.
	Acquire(ctx context.Context, resource string) (Hold, error)
	// Try asks once. Errors: ErrBusy, that of the store or of a point.
	Try(ctx context.Context, resource string) (Hold, error)
	// Close ends what the client runs in the background.
	Close() error
}

// Hold is one stay of a client in possession of a resource, as far as the lock
// knows.
type Hold interface {
	// Token is the fencing token; 0: the lock has none.
	Token() uint64
	// Until is when the lock says that the holder must stop, unless it renews; the
	// zero time: it does not say.
	Until() time.Time
	// Lost is closed when the lock tells the holder that it lost the resource;
	// nil: it never tells.
	Lost() <-chan struct{}
	// Err is what a careful holder asks before it relies on the lock: nil while
	// the lock says that all is well. A lock that never tells says nil for ever.
	Err() error
	// Within marks ctx as that of the party that holds, so that an Acquire under
	// it is a re-entry, where the lock knows such a thing.
	Within(ctx context.Context) context.Context
	// Renew extends the hold to its TTL. Errors: ErrNoRenewal, ErrNotHeld, those
	// of the store or of a point.
	Renew(ctx context.Context) error
	// Release gives the resource back. Errors: ErrNotHeld if the lock noticed that
	// the hold was over, those of the store or of a point.
	Release(ctx context.Context) error
}

// at calls the point, if there is one.
func (s Setup) at(ctx context.Context, step string) error {
	if s.Point == nil {
		return nil
	}
	return s.Point(ctx, step)
}
