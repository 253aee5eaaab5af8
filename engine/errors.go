package engine

import (
	"errors"
	"fmt"
)

// Errors to compare with errors.Is. Engines wrap them with the store's error.
var (
	// ErrUnavailable: the store could not be reached or did not respond, and a
	// retry may help. Whether the call took effect is unknown.
	ErrUnavailable = errors.New("store unavailable")
	// ErrDenied: the store refused the request, and a retry does not help until
	// its configuration or data change (credentials, ACL, a foreign key under
	// the resource's name).
	ErrDenied = errors.New("store refused the request")
	// ErrEnded: the lease or wait of this holder ID has ended, or was
	// withdrawn. The error is an *EndedError.
	ErrEnded = errors.New("holder ID has ended")
	// ErrMismatch: the resource is in use, or marked as done, with another kind
	// or capacity.
	ErrMismatch = errors.New("resource is in use with another kind or capacity")
	// ErrTooHeavy: the weight is above the capacity, so it can never be
	// granted; from Resize, the weight is not between 1 and the present one.
	ErrTooHeavy = errors.New("weight is above the capacity")
	// ErrBallot: the ballot is more than MaxBallotAhead in the future.
	ErrBallot = errors.New("ballot is too far in the future")
)

// A Cause is the reason why a lease is not held.
type Cause uint8

// The causes.
const (
	// CauseExpired: its TTL ran out.
	CauseExpired Cause = iota + 1
	// CauseTaken: its TTL ran out, and others now fill the capacity.
	CauseTaken
	// CauseDeleted: the store has no record of it (deleted key, FLUSHALL,
	// failover, restart without data).
	CauseDeleted
	// CauseBroken: an operator broke it.
	CauseBroken
	// CauseReleased: it was released, by its holder or with its ticket.
	CauseReleased
)

func (c Cause) String() string {
	return nameOf(c, []string{
		"unknown cause", CauseExpired: "expired", CauseTaken: "taken", CauseDeleted: "deleted",
		CauseBroken: "broken", CauseReleased: "released",
	})
}

// nameOf returns the name of a value of an enumeration, names[0] if it has none.
func nameOf[E ~uint8](e E, names []string) string {
	if int(e) >= len(names) {
		e = 0
	}
	return names[e]
}

// A NotHeldError reports that a holder ID holds nothing, and why.
type NotHeldError struct {
	Cause  Cause
	Reason string // of the break, if the cause is CauseBroken
}

func (e *NotHeldError) Error() string { return "lease not held: " + causeText(e.Cause, e.Reason) }

// An EndedError is the error of Acquire for a holder ID whose lease or wait has
// ended. It matches ErrEnded.
type EndedError struct {
	Cause  Cause  // CauseReleased: it was withdrawn
	Reason string // of the break, if the cause is CauseBroken
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("%v: %s", ErrEnded, causeText(e.Cause, e.Reason))
}

// Is reports whether target is ErrEnded.
func (e *EndedError) Is(target error) bool { return target == ErrEnded }

func causeText(c Cause, reason string) string {
	if reason == "" {
		return c.String()
	}
	return fmt.Sprintf("%s, %q", c, reason)
}
