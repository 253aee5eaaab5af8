package engine

import (
	"errors"
	"fmt"
)

// Errors of an engine. Test for them with errors.Is: engines wrap them with
// what the store said.
var (
	// ErrUnavailable: the store could not be asked or did not answer, and
	// asking again may help. Whether the call took effect is unknown.
	ErrUnavailable = errors.New("store unavailable")
	// ErrDenied: the store refuses, and asking again will not help until
	// somebody changes its configuration or data (credentials, ACL, a foreign
	// key under the resource's name).
	ErrDenied = errors.New("store refused the request")
	// ErrEnded: this holder ID had a lease that ended, or was withdrawn. The
	// error is an *EndedError.
	ErrEnded = errors.New("holder ID has ended")
	// ErrMismatch: the resource is in use, or marked as done, with another kind
	// or capacity.
	ErrMismatch = errors.New("resource is in use with another kind or capacity")
	// ErrTooHeavy: the weight is above the capacity, so it can never be granted;
	// or, of Resize, it is not between 1 and the present weight.
	ErrTooHeavy = errors.New("weight is above the capacity")
	// ErrBallot: the ballot lies more than MaxBallotAhead in the future.
	ErrBallot = errors.New("ballot is too far in the future")
)

// Cause says why a lease is not held.
type Cause uint8

// The causes.
const (
	// CauseExpired: its TTL ran out.
	CauseExpired Cause = iota + 1
	// CauseTaken: its TTL ran out, and others now fill the capacity.
	CauseTaken
	// CauseDeleted: the store has no memory of it (deleted key, FLUSHALL,
	// failover, restart without data).
	CauseDeleted
	// CauseBroken: an operator ended it.
	CauseBroken
	// CauseReleased: it was given back, by this party or with its ticket.
	CauseReleased
)

func (c Cause) String() string {
	switch c {
	case CauseExpired:
		return "expired"
	case CauseTaken:
		return "taken"
	case CauseDeleted:
		return "deleted"
	case CauseBroken:
		return "broken"
	case CauseReleased:
		return "released"
	}
	return "unknown cause"
}

// NotHeldError says that a holder ID holds nothing, and why.
type NotHeldError struct {
	Cause Cause
}

func (e *NotHeldError) Error() string { return fmt.Sprintf("lease not held: %s", e.Cause) }

// EndedError is the answer to Acquire with a holder ID whose lease or wait has
// ended. It is ErrEnded.
type EndedError struct {
	Cause Cause // CauseReleased: it was withdrawn
}

func (e *EndedError) Error() string { return fmt.Sprintf("%v: %s", ErrEnded, e.Cause) }

// Is makes errors.Is(err, ErrEnded) hold.
func (e *EndedError) Is(target error) bool { return target == ErrEnded }
