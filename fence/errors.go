package fence

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Errors to test for with errors.Is.
var (
	// ErrStale: a newer token was seen, so the caller's lease has passed to
	// another. Nothing was written. See StaleError.
	ErrStale = errors.New("stale fencing token")
	// ErrToken: the number is not the token of a lease: 0 (what a lease without a
	// lock has) or above MaxToken. Nothing was written.
	ErrToken = errors.New("not a fencing token")
	// ErrInvalid: an option, a name or an identifier is out of range. The text
	// says what is allowed.
	ErrInvalid = errors.New("invalid option")
)

const (
	// MaxToken is the highest token: what a Lua number holds exactly. Tokens of
	// Holdfast are microseconds since 1970 and reach it in the year 2255.
	MaxToken = 1<<53 - 1
	// MaxNameLen is the longest name of a resource, in bytes.
	MaxNameLen = 512
)

// StaleError says which token was refused and why. It is ErrStale.
type StaleError struct {
	// Resource is the resource, or the table of a row.
	Resource string
	Token    uint64 // refused
	Newest   uint64 // the newest that was seen
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: %q refuses token %d, having seen %d: %v", e.Resource, e.Token, e.Newest, ErrStale)
}

// Is makes errors.Is(err, ErrStale) hold.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

func checkToken(token uint64) error {
	if token == 0 || token > MaxToken {
		return fmt.Errorf("fence: token %d: %w: use what Lease.Token returns", token, ErrToken)
	}
	return nil
}

// checkClaim covers what a lock's name may be, less the zero byte, which
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
