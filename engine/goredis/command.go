package goredis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// command is a command that go-redis does not retry: if its reply is lost, the caller must
// know that the outcome is unknown.
type command struct{ *redis.Cmd }

func (command) NoRetry() bool { return true }

func newCommand(ctx context.Context, args []any) command {
	return command{redis.NewCmd(ctx, args...)}
}

// run runs one script and returns its reply or a classified error.
func (e *Engine) run(ctx context.Context, rdb redis.UniversalClient, c script.Call) (any, error) {
	if rdb == e.rdb {
		if cb := e.batchers.of(ctx, c.Key()); cb != nil {
			reply, err := cb.run(ctx, c)
			noticed(rdb, err)
			return reply, e.classify(ctx, err)
		}
	}
	reply, err := bounded(e, ctx, func() (any, error) {
		if rdb != e.rdb {
			return process(ctx, rdb, c)
		}
		return through(ctx, e, nil, func(ctx context.Context, rdb redis.UniversalClient) (any, error) {
			return process(ctx, rdb, c)
		})
	})
	if err == nil && rdb == e.rdb {
		e.batchers.learned()
	}
	noticed(rdb, err)
	return reply, e.classify(ctx, err)
}

// process sends a call. It sends it again if Redis does not have the script, or is out of
// memory and the call needs no more.
func process(ctx context.Context, rdb redis.UniversalClient, c script.Call) (any, error) {
	cmd := newCommand(ctx, c.Args())
	_ = rdb.Process(ctx, cmd)
	if isCode(cmd.Err(), "NOSCRIPT") { // nothing was done
		cmd = newCommand(ctx, c.Text())
		_ = rdb.Process(ctx, cmd)
	}
	if isCode(cmd.Err(), "OOM") {
		if full, ok := c.WhenFull(); ok {
			return process(ctx, rdb, full)
		}
	}
	return cmd.Result()
}

// reply is the result of one call of a batch.
type reply struct {
	value any
	err   error // as go-redis returned it
}

// batch runs calls in one pipeline and returns one reply for each, in order.
func batch(ctx context.Context, rdb redis.UniversalClient, all []script.Call) []reply {
	replies := pipeline(ctx, rdb, all)
	for range mendRounds {
		if !mend(ctx, rdb, all, replies) {
			return replies
		}
	}
	// For example, some nodes of a cluster still do not have the script.
	for i := range replies {
		r := &replies[i]
		if c, ok := again(all[i], r.err); ok {
			r.value, r.err = process(ctx, rdb, c)
		}
	}
	return replies
}

// mendRounds is enough for one server that does not have the scripts and is out of memory.
const mendRounds = 2

// mend makes calls again that failed because the server does not have the script or is out of memory, which
// is rare. The first call of each script is made alone, which loads the script, and the others in one
// pipeline: many renewals must not take a round trip each. It reports whether there were others.
func mend(ctx context.Context, rdb redis.UniversalClient, all []script.Call, replies []reply) bool {
	loaded := make(map[any]bool) // scripts, by SHA1
	var others []script.Call
	var at []int // the reply of each
	for i := range replies {
		r := &replies[i]
		c, ok := again(all[i], r.err)
		switch {
		case !ok:
		case loaded[c.Args()[1]]:
			others, at = append(others, c), append(at, i)
		default:
			loaded[c.Args()[1]] = true
			r.value, r.err = process(ctx, rdb, c)
		}
	}
	if len(others) == 0 {
		return false
	}
	for n, r := range pipeline(ctx, rdb, others) {
		replies[at[n]] = r
	}
	return true
}

// again returns the call to make after an error, if there is one.
func again(c script.Call, err error) (script.Call, bool) {
	if isCode(err, "OOM") {
		return c.WhenFull()
	}
	return c, isCode(err, "NOSCRIPT")
}

// pipeline is batch without a retry.
func pipeline(ctx context.Context, rdb redis.UniversalClient, all []script.Call) []reply {
	sent := make([]redis.Cmder, len(all))
	for i, c := range all {
		sent[i] = newCommand(ctx, c.Args())
	}
	pipe := rdb.Pipeline()
	_ = pipe.BatchProcess(ctx, sent...)
	exec(ctx, pipe)
	replies := make([]reply, len(all))
	for i, cmd := range sent {
		replies[i].value, replies[i].err = cmd.(command).Result()
	}
	return replies
}

// exec runs a pipeline. After it, each command has a reply or an error. If the server refused
// the connection, for example with WRONGPASS, go-redis sets neither.
func exec(ctx context.Context, pipe redis.Pipeliner) {
	sent, err := pipe.Exec(ctx)
	if err == nil {
		return
	}
	for _, cmd := range sent {
		if c, ok := cmd.(command); ok && c.Err() == nil && c.Val() == nil { // nil as a reply is the error redis.Nil
			c.SetErr(err)
		}
	}
}

// unexpected returns the error for a reply that the script never returns.
func unexpected(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", engine.ErrDenied, err)
}
