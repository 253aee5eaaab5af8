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

// classify says of an error of go-redis whether asking again may help. The
// original stays in the chain, and so does the end of ctx.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if isTimeout(err) {
		awaitDeadline(ctx)
	}
	var answered redis.Error
	switch {
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: the redis client is closed: %w", engine.ErrDenied, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w: %w", engine.ErrUnavailable, ended(ctx), err)
	case errors.As(err, &answered) && !passes(answered.Error()):
		return fmt.Errorf("%w: %w", engine.ErrDenied, err)
	}
	// A connection that broke, could not be made, or gave no answer in time.
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
}

// awaitDeadline lets ctx end if its deadline has come: the deadline of the
// connection, which is the same, may be noticed a moment earlier.
func awaitDeadline(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if !ok || time.Now().Before(deadline) {
		return
	}
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
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

// passing are the answers that may change without anybody's doing: a server
// that starts, fails over, moves slots, is full or busy. Any other answer stays
// as it is until somebody changes a password, an ACL or the data.
var passing = []string{
	"LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK",
	"BUSY", "OOM", "MISCONF", "NOSCRIPT", "UNBLOCKED", "EXECABORT", "ERR max number of clients",
}

func passes(answer string) bool {
	// Redis before 7 wraps what a command in a script answered.
	if inner, ok := strings.CutPrefix(answer, "ERR Error running script"); ok {
		_, answer, _ = strings.Cut(inner, ": @")
		_, answer, _ = strings.Cut(answer, ": ")
		answer = strings.TrimPrefix(answer, "-")
	}
	for _, p := range passing {
		if strings.HasPrefix(answer, p) {
			return true
		}
	}
	return false
}

// isDenied tells whether asking again is useless.
func isDenied(ctx context.Context, err error) bool {
	return errors.Is(classify(ctx, err), engine.ErrDenied)
}

// isCode tells whether Redis answered with a code.
func isCode(err error, code string) bool {
	if err == nil {
		return false // the usual case, without the allocation below
	}
	var answered redis.Error
	return errors.As(err, &answered) && strings.HasPrefix(answered.Error(), code)
}

func checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond {
		return fmt.Errorf("%w: TTL %v is below 1 ms", engine.ErrDenied, ttl)
	}
	return nil
}
