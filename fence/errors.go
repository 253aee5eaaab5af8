package fence

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Errors to compare with errors.Is.
var (
	// ErrStale: a newer token was seen, so the caller's lease has passed to
	// another. Nothing was written. See StaleError.
	ErrStale = errors.New("stale fencing token")
	// ErrToken: the number is not the token of a lease: it is 0, as for a lease
	// that was granted without the store, or above MaxToken. Nothing was
	// written.
	ErrToken = errors.New("not a fencing token")
	// ErrInvalid: an option, a name or an identifier is not allowed. The text
	// states what is allowed.
	ErrInvalid = errors.New("invalid option")
)

const (
	// MaxToken is the highest token: the largest integer that a Lua number
	// holds exactly. Tokens of Holdfast are microseconds since 1970 and reach
	// it in the year 2255.
	MaxToken = 1<<53 - 1
	// MaxNameLen is the maximum length of a resource name, in bytes.
	MaxNameLen = 512
)

// A StaleError reports which token was refused and why. It matches ErrStale.
type StaleError struct {
	// Resource is the resource, or the table of a row.
	Resource string
	Token    uint64 // refused
	Newest   uint64 // the newest that was seen
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: %q refuses token %d, having seen %d: %v", e.Resource, e.Token, e.Newest, ErrStale)
}

// Is reports whether target is ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

func checkToken(token uint64) error {
	if token == 0 || token > MaxToken {
		return fmt.Errorf("fence: token %d: %w: use what Lease.Token returns", token, ErrToken)
	}
	return nil
}

// checkClaim accepts the names of locks, except those with a zero byte, which
// PostgreSQL does not store.
func checkClaim(resource string, token uint64) error {
	if resource == "" || len(resource) > MaxNameLen || !utf8.ValidString(resource) || strings.ContainsRune(resource, 0) {
		return optionError("resource %q: use 1 to %d bytes of UTF-8 without zero bytes", resource, MaxNameLen)
	}
	return checkToken(token)
}

func opError(op, resource string, err error) error {
	return fmt.Errorf("fence: %s %q: %w", op, resource, err)
}

func optionError(format string, args ...any) error {
	return fmt.Errorf("fence: %w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
