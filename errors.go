package holdfast

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Errors to test for with errors.Is. The errors that methods return say more:
// see HeldError and LostError.
var (
	// ErrNotAcquired: the lease was not granted. A wait that its ctx ended is
	// also the ctx's cause.
	ErrNotAcquired = errors.New("not acquired")
	// ErrNotHeld: the caller does not hold what it wants to give back.
	ErrNotHeld = errors.New("not held")
	// ErrLost: the lease ended before it was released; see LostError.
	ErrLost = errors.New("lease lost")
	// ErrReleased: the lease was released, or detached.
	ErrReleased = errors.New("lease released")
	// ErrUnavailable: the store cannot be reached or does not answer.
	ErrUnavailable = engine.ErrUnavailable
	// ErrDenied: the store refuses, and waiting will not mend it: credentials,
	// ACL, or a foreign key where the resource's state should be.
	ErrDenied = engine.ErrDenied
	// ErrTooHeavy: the weight is above the capacity.
	ErrTooHeavy = engine.ErrTooHeavy
	// ErrMismatch: the resource is in use with another kind or capacity.
	ErrMismatch = engine.ErrMismatch
	// ErrDeadlock: the caller waits for what it holds itself.
	ErrDeadlock = errors.New("deadlock: the resource is held by the caller's own lease")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("client is closed")
	// ErrInvalid: an option or a name is out of range. The text says what is
	// allowed.
	ErrInvalid = errors.New("invalid option")
)

// HeldError says who keeps a resource busy. It is ErrNotAcquired.
type HeldError struct {
	Resource string
	// HolderID, Name, Host, PID and Reason describe one of the holders, the one
	// whose lease ends first. HolderID is empty if only waiters are ahead.
	HolderID, Name, Host string
	PID                  int
	Reason               string
	Since                time.Time     // by the store's clock
	TTL                  time.Duration // left, unless it is renewed
	Waiters              int
}

func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast: %q not acquired: ", e.Resource)
	if e.HolderID == "" {
		fmt.Fprintf(&b, "%d waiting ahead", e.Waiters)
		return b.String()
	}
	fmt.Fprintf(&b, "held by %s", e.HolderID)
	if e.Name != "" || e.Host != "" {
		fmt.Fprintf(&b, " (%s, pid %d on %s)", e.Name, e.PID, e.Host)
	}
	if !e.Since.IsZero() {
		fmt.Fprintf(&b, " since %s", e.Since.UTC().Format(time.RFC3339))
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, " for %q", e.Reason)
	}
	fmt.Fprintf(&b, ", TTL left %s, %d waiting", e.TTL.Round(time.Millisecond), e.Waiters)
	return b.String()
}

// Is makes errors.Is(err, ErrNotAcquired) hold.
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquired }

// LostCause says how a lease was lost.
type LostCause uint8

// The causes of a loss.
const (
	// LostExpired: its TTL ran out, because it was not renewed (WithoutRenewal)
	// or the process did not run in time.
	LostExpired LostCause = iota + 1
	// LostTaken: its TTL ran out and others hold the resource now.
	LostTaken
	// LostDeleted: the store does not know it any more: deleted key, FLUSHALL,
	// failover, restart without data.
	LostDeleted
	// LostBroken: an operator ended it.
	LostBroken
	// LostUnreachable: the store could not be reached until the trust window
	// closed.
	LostUnreachable
	// LostElsewhere: it was released by another party that had its ticket.
	LostElsewhere
)

func (c LostCause) String() string {
	switch c {
	case LostExpired:
		return "expired"
	case LostTaken:
		return "taken"
	case LostDeleted:
		return "deleted"
	case LostBroken:
		return "broken"
	case LostUnreachable:
		return "unreachable"
	case LostElsewhere:
		return "released elsewhere"
	}
	return "unknown"
}

// LostError says that a lease ended before it was released, and how. It is
// ErrLost. Unwrap gives the error of the store, if there was one.
type LostError struct {
	Resource string
	Token    uint64
	Cause    LostCause

	err error
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("holdfast: lease of %q (token %d) lost: %s", e.Resource, e.Token, e.Cause)
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

// Is makes errors.Is(err, ErrLost) hold.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns what the store said, or nil.
func (e *LostError) Unwrap() error { return e.err }

// lostCause translates the engine's cause.
func lostCause(c engine.Cause) LostCause {
	switch c {
	case engine.CauseExpired:
		return LostExpired
	case engine.CauseTaken:
		return LostTaken
	case engine.CauseBroken:
		return LostBroken
	case engine.CauseReleased:
		return LostElsewhere
	default:
		return LostDeleted
	}
}

// waitError is a wait that ended without a lease: ErrNotAcquired, what ended
// it, and the last trouble with the store, if it was in trouble then.
type waitError struct {
	resource string
	ended    error
	trouble  error
}

func (e *waitError) Error() string {
	s := fmt.Sprintf("holdfast: %q not acquired: %v", e.resource, e.ended)
	if e.trouble != nil {
		s += fmt.Sprintf(" (%v)", e.trouble)
	}
	return s
}

func (e *waitError) Unwrap() []error {
	errs := []error{ErrNotAcquired, e.ended}
	if e.trouble != nil {
		errs = append(errs, e.trouble)
	}
	return errs
}

// endedBy tells whether a wait was ended by why itself. A ctx may have ended it
// whose cause is the error of another wait.
func endedBy(err, why error) bool {
	var w *waitError
	return errors.As(err, &w) && w.ended == why
}

// opError names the operation and the resource of a failure.
func opError(op, resource string, err error) error {
	return fmt.Errorf("holdfast: %s %q: %w", op, resource, err)
}

// optionError says which value is out of range and what is allowed.
func optionError(format string, args ...any) error {
	return fmt.Errorf("holdfast: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
