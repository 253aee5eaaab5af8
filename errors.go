package holdfast

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Errors to compare with errors.Is. Methods return errors with more detail: see
// HeldError and LostError.
var (
	// ErrNotAcquired: the lease was not granted. If ctx ended the wait, the
	// error also matches context.Cause(ctx).
	ErrNotAcquired = errors.New("not acquired")
	// ErrNotHeld: the lease, wait or mark that the call refers to does not
	// exist, or has been released.
	ErrNotHeld = errors.New("not held")
	// ErrLost: the lease ended before it was released; see LostError.
	ErrLost = errors.New("lease lost")
	// ErrReleased: the lease was released or detached.
	ErrReleased = errors.New("lease released")
	// ErrUnavailable: the store cannot be reached or does not respond.
	ErrUnavailable = engine.ErrUnavailable
	// ErrDenied: the store refused the request, and waiting does not help:
	// wrong credentials, an ACL, or a foreign key in place of the resource's
	// state.
	ErrDenied = engine.ErrDenied
	// ErrTooHeavy: the weight is above the capacity.
	ErrTooHeavy = engine.ErrTooHeavy
	// ErrMismatch: the resource is in use with another kind or capacity. The
	// text names both if the store shows them.
	ErrMismatch = engine.ErrMismatch
	// ErrDeadlock: the caller would wait for a lease that it holds itself.
	ErrDeadlock = errors.New("deadlock: the resource is held by the caller's own lease")
	// ErrClosed: the client is closed.
	ErrClosed = errors.New("client is closed")
	// ErrInvalid: an option, a name or another argument is not allowed. The
	// text states what is allowed.
	ErrInvalid = errors.New("invalid option")
)

// A HeldError describes the holder of a resource. It matches ErrNotAcquired. Its
// text has no HolderID, which is a capability, so that it may be logged.
type HeldError struct {
	Resource string
	// HolderID, Name, Host, PID and Reason describe the holder whose lease ends
	// first. HolderID is empty if only waiters are ahead.
	HolderID, Name, Host string
	PID                  int
	Reason               string
	Since                time.Time     // by the store's clock
	TTL                  time.Duration // left, unless it is renewed
	Waiters              int           // 0 on a quorum, which does not know

	span SpanRef // of the holder
}

func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "holdfast: %q not acquired: ", e.Resource)
	if e.HolderID == "" {
		fmt.Fprintf(&b, "%d waiting ahead", e.Waiters)
		return b.String()
	}
	b.WriteString("held")
	if e.Name != "" || e.Host != "" {
		fmt.Fprintf(&b, " by %s, pid %d on %s", e.Name, e.PID, e.Host)
	}
	if !e.Since.IsZero() {
		fmt.Fprintf(&b, " since %s", e.Since.UTC().Format(time.RFC3339))
	}
	if e.Reason != "" {
		fmt.Fprintf(&b, " for %q", e.Reason)
	}
	fmt.Fprintf(&b, ", TTL left %s", e.TTL.Round(time.Millisecond))
	if e.Waiters > 0 {
		fmt.Fprintf(&b, ", %d waiting", e.Waiters)
	}
	return b.String()
}

// Is reports whether target is ErrNotAcquired.
func (e *HeldError) Is(target error) bool { return target == ErrNotAcquired }

// A LostCause is the reason why a lease was lost.
type LostCause uint8

// The causes of a loss.
const (
	// LostExpired: the TTL ran out, because the lease was not renewed
	// (WithoutRenewal) or the process did not run in time.
	LostExpired LostCause = iota + 1
	// LostTaken: the TTL ran out, and others hold the resource now.
	LostTaken
	// LostDeleted: the store has no record of the lease: deleted key, FLUSHALL,
	// failover, or restart without data.
	LostDeleted
	// LostBroken: an operator broke the lease.
	LostBroken
	// LostUnreachable: the store could not be reached before the trust window
	// closed.
	LostUnreachable
	// LostElsewhere: another holder of the lease's ticket released it.
	LostElsewhere
)

func (c LostCause) String() string {
	return nameOf(c, []string{
		"unknown", LostExpired: "expired", LostTaken: "taken", LostDeleted: "deleted", LostBroken: "broken",
		LostUnreachable: "unreachable", LostElsewhere: "released elsewhere",
	})
}

// A LostError reports that a lease ended before it was released, and why. It
// matches ErrLost.
type LostError struct {
	Resource string
	Token    uint64
	Cause    LostCause
	Reason   string // what the operator gave as BreakReason, if Cause is LostBroken

	err error
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("holdfast: lease of %q (token %d) lost: %s", e.Resource, e.Token, e.Cause)
	if e.Reason != "" {
		s += fmt.Sprintf(", for %q", e.Reason)
	}
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

// Is reports whether target is ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the store's error, or nil if there was none.
func (e *LostError) Unwrap() error { return e.err }

// lostCause converts an engine's cause.
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

// A waitError reports a wait that ended without a lease: it matches
// ErrNotAcquired, what ended the wait, and the store's latest error if it was
// failing then.
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

// endedBy reports whether why itself ended a wait. The ctx that ended the wait
// may have another wait's error as its cause.
func endedBy(err, why error) bool {
	w, ok := errors.AsType[*waitError](err)
	return ok && w.ended == why
}

// brokenWait ends a wait that an operator broke, for this reason.
type brokenWait string

func (reason brokenWait) Error() string {
	const text = "the wait was broken by an operator"
	if reason == "" {
		return text
	}
	return fmt.Sprintf("%s, for %q", text, string(reason))
}

// endedByBreak reports whether an operator broke the wait.
func endedByBreak(err error) bool {
	w, ok := errors.AsType[*waitError](err)
	if !ok {
		return false
	}
	_, ok = w.ended.(brokenWait)
	return ok
}

// opError adds the operation and the resource to an error.
func opError(op, resource string, err error) error {
	return fmt.Errorf("holdfast: %s %q: %w", op, resource, err)
}

// optionError returns an ErrInvalid; the text states what is allowed.
func optionError(format string, args ...any) error {
	return fmt.Errorf("holdfast: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
