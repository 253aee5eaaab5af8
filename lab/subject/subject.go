// Package subject has one small interface for every lock of the lab: the locks that are
// often copied from articles, each as in its article; Holdfast on each of its engines;
// and, in package peer, other Go libraries through their public API.
//
// A subject has points: moments between two of its steps at which the lab may stop,
// pause or kill the client. The comment of an old lock states its promise and its holes;
// its file has the name of the subject's ID.
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
	// ErrBusy: another holds the resource.
	ErrBusy = errors.New("another holds it")
	// ErrNotHeld: by the lock, the hold does not exist, or no longer.
	ErrNotHeld = errors.New("not held")
	// ErrNoRenewal: this lock cannot renew.
	ErrNoRenewal = errors.New("this lock has no renewal")
	// ErrDead: the client was killed at a point, and its operations stop.
	ErrDead = errors.New("the client is dead")
)

// Subject is a lock under test.
type Subject struct {
	// ID is the name in tables, the row of ALGORITHMS for an old lock.
	ID string
	// Title is a short description of the lock.
	Title string
	// Nodes is the number of independent Redis servers; 0: none, it runs only on
	// Setup.Engine.
	Nodes int
	// Traits are the features of the lock.
	Traits Traits
	// Open makes a client. Errors are those of the setup, not of an unreachable
	// server.
	Open func(Setup) (Client, error)
}

// Traits are the features of a lock besides acquire and release.
type Traits struct {
	Tokens      bool // Hold.Token grows with each grant
	Fence       Fence
	Windows     bool // Hold.Until is set
	ReportsLoss bool // Hold.Lost is closed on a loss
	Renews      bool // Hold.Renew works
	Keeps       bool // renews by itself while it is held
	Points      bool // calls Setup.Point
}

// Fence is how the protected side checks the tokens of a lock.
type Fence uint8

// The fences. The last is that of package fence.
const (
	Unfenced Fence = iota // no check
	OnWrites              // a write is refused if its token is older than that of the last write
	OnClaims              // a read or write is refused if its token is older than that of the last read or write
)

// Setup is the parameters of one client of a subject.
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
	// Retry is the delay of an old lock between two tries (default 5 ms).
	Retry time.Duration
	// Clock is the client's wall clock; nil: the machine's.
	Clock *Clock
	// Point is called between steps; nil: nothing is.
	Point Point
	// Renewed is called for each renewal that a lock of trait Keeps did by itself and
	// that moved the end of the trust window; nil: nobody.
	Renewed func(Renewal)
}

// Renewal is a renewal that a lock did by itself.
type Renewal struct {
	Resource string
	Token    uint64
	Until    time.Time
}

// Point is called when a client has reached a step, such as "acquire.setnx": SETNX has
// replied, and the next step has not begun. It may block. If it returns an error, the
// client stops the operation without a clean-up and returns that error: from outside,
// this looks like the death of the client.
type Point func(ctx context.Context, step string) error

// Client is one client of a lock. It is safe for concurrent use.
type Client interface {
	// Acquire waits until it holds the resource or ctx ends. Errors: that of ctx,
	// of the store or of a point.
	Acquire(ctx context.Context, resource string) (Hold, error)
	// Try tries once. Errors: ErrBusy, that of the store or of a point.
	Try(ctx context.Context, resource string) (Hold, error)
	// Close ends the background work of the client.
	Close() error
}

// Hold is a resource held by a client, by the state of the lock.
type Hold interface {
	// Token is the fencing token; 0: the lock has none.
	Token() uint64
	// Until is the time at which the holder must stop unless it renews; the zero
	// time if the lock has none.
	Until() time.Time
	// Lost is closed when the lock detects the loss of the resource; nil if it does
	// not detect losses.
	Lost() <-chan struct{}
	// Err is nil while the hold is valid by the state of the lock. It is always nil if
	// the lock does not detect losses.
	Err() error
	// Within marks ctx as the holder's, so that an Acquire under it is a re-entry if
	// the lock supports re-entry.
	Within(ctx context.Context) context.Context
	// Renew extends the hold to its TTL. Errors: ErrNoRenewal, ErrNotHeld, those
	// of the store or of a point.
	Renew(ctx context.Context) error
	// Release releases the resource. Errors: ErrNotHeld if the lock detected that the
	// hold had ended, those of the store or of a point.
	Release(ctx context.Context) error
}

// at calls Point if it is set.
func (s Setup) at(ctx context.Context, step string) error {
	if s.Point == nil {
		return nil
	}
	return s.Point(ctx, step)
}
