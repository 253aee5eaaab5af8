package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

// classify wraps an error of go-redis in engine.ErrUnavailable if a retry may help, otherwise
// in engine.ErrDenied. The original error and the end of ctx stay in the chain.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if isTimeout(err) {
		awaitDeadline(ctx)
	}
	answer := answered(err)
	if inner, ok := answer.(*scriptError); ok {
		err = inner
	}
	switch {
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: the redis client is closed: %w", engine.ErrDenied, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w: %w", engine.ErrUnavailable, ended(ctx), err)
	case answer != nil && strings.HasPrefix(answer.Error(), tooLongUnauthenticated):
		return fmt.Errorf("%w: NOAUTH Authentication required: %w", engine.ErrDenied, err)
	case answer != nil && !passes(answer.Error()):
		return fmt.Errorf("%w: %w", engine.ErrDenied, err)
	}
	// The connection broke, could not be made, or there was no answer in time.
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
}

// awaitDeadline waits for the end of ctx if its deadline has passed: the connection has the
// same deadline and may time out a moment earlier.
func awaitDeadline(ctx context.Context) {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		sleep(ctx, 100*time.Millisecond)
	}
}

// ended returns why ctx ended: its error and, if it differs, its cause.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// tooLongUnauthenticated begins the answer to a command of more than ten words, in place of NOAUTH.
const tooLongUnauthenticated = "ERR Protocol error: unauthenticated "

// passing are the errors of Redis that may pass by themselves: a server that starts, fails
// over, moves slots, is full or busy. Any other error stays until a password, an ACL or the
// data is changed.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	"BUSY", "OOM", "MISCONF", "NOSCRIPT", "UNBLOCKED", "EXECABORT", "ERR max number of clients",
	// In a script, while the cluster is down, and while a slot moves. The second of each is
	// Redis 6.
	"ERR Script attempted to execute a", "ERR Lua script attempted to execute a",
	"ERR Script attempted to access a non local key", "ERR Lua script attempted to access a non local key",
}

func passes(answer string) bool {
	for _, p := range passing {
		if strings.HasPrefix(answer, p) {
			return true
		}
	}
	return false
}

// answered returns the error of Redis in the chain of err, or nil. Its text begins with the
// code, even if it is the error of a command in a script of Redis 6.
func answered(err error) redis.Error {
	answer, ok := errors.AsType[redis.Error](err)
	if !ok {
		return nil
	}
	if inner, ok := inScript(answer.Error()); ok {
		return &scriptError{inner, err}
	}
	return answer
}

// scriptError is the error of a command in a script in the form of Redis 7: the text begins
// with the code of the command's error. Unwrap returns the error of Redis 6.
type scriptError struct {
	text  string
	whole error
}

func (e *scriptError) Error() string { return e.text }
func (e *scriptError) RedisError()   {}
func (e *scriptError) Unwrap() error { return e.whole }

// inScript returns the error of a command in a script from the error text of Redis 6. The
// line number appears once if the command ran and failed, and twice if the command was
// refused; its code then follows a dash:
//
//	ERR Error running script (call to f_SHA): @user_script:47: WRONGTYPE Operation against …
//	ERR Error running script (call to f_SHA): @user_script:47: @user_script: 47: -READONLY You can't …
//	ERR Error running script (call to f_SHA): @user_script:47: @user_script: 47: The user executing …
//
// The last one is a refusal without a code, by an ACL for example.
func inScript(text string) (inner string, ok bool) {
	rest, ok := strings.CutPrefix(text, "ERR Error running script (call to ")
	if !ok {
		return "", false
	}
	if _, rest, ok = strings.Cut(rest, "): @user_script:"); !ok {
		return "", false // an error of the script engine
	}
	if _, rest, ok = strings.Cut(rest, ": "); !ok {
		return "", false
	}
	refused, ok := strings.CutPrefix(rest, "@user_script: ")
	if !ok {
		return rest, true
	}
	if _, refused, ok = strings.Cut(refused, ": "); !ok {
		return "", false
	}
	if coded, ok := strings.CutPrefix(refused, "-"); ok {
		return coded, true
	}
	return "ERR " + refused, true
}

// isDenied reports whether a retry is useless.
func isDenied(ctx context.Context, err error) bool {
	return errors.Is(classify(ctx, err), engine.ErrDenied)
}

// isAnswer reports whether an error is an answer of Redis, so that the connection works.
func isAnswer(err error) bool { return answered(err) != nil }

// isCode reports whether an error is an answer of Redis with a code.
func isCode(err error, code string) bool {
	answer := answered(err)
	return answer != nil && strings.HasPrefix(answer.Error(), code)
}

func checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond {
		return fmt.Errorf("%w: TTL %v is below 1 ms", engine.ErrDenied, ttl)
	}
	return nil
}
