package goredis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// A ReplicasError reports that too few replicas confirmed a grant, a renewal or
// a mark in time; see [WithReplicas]. It matches engine.ErrUnavailable: a retry
// may help, and until it succeeds the caller must not rely on the result.
type ReplicasError struct {
	Have, Want int
	Within     time.Duration
	Err        error // why the number is unknown; usually nil
}

func (e *ReplicasError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("store unavailable: it is unknown how many of %d replicas confirmed: %v", e.Want, e.Err)
	}
	return fmt.Sprintf("store unavailable: %d of %d replicas confirmed within %v", e.Have, e.Want, e.Within)
}

// Is reports whether target is engine.ErrUnavailable.
func (e *ReplicasError) Is(target error) bool { return target == engine.ErrUnavailable }

// Unwrap returns Err.
func (e *ReplicasError) Unwrap() error { return e.Err }

// replicas is how many replicas must confirm a call, and within which time.
type replicas struct {
	n     int
	wait  time.Duration
	fsync bool // on disk, if the server has WAITAOF
}

// Limits of WithReplicas.
const (
	minReplicaWait = time.Millisecond
	maxReplicaWait = 2 * time.Second
)

func (r replicas) check(rdb redis.UniversalClient) error {
	if r.n == 0 {
		if r.fsync {
			return fmt.Errorf("goredis: WithFsync needs WithReplicas")
		}
		return nil
	}
	if r.n < 0 || r.wait < minReplicaWait || r.wait > maxReplicaWait {
		return fmt.Errorf("goredis: %d replicas within %v: want at least 1, within %v to %v", r.n, r.wait, minReplicaWait, maxReplicaWait)
	}
	var read time.Duration
	switch c := rdb.(type) {
	case *redis.Client:
		read = c.Options().ReadTimeout
	case *redis.ClusterClient:
		read = c.Options().ReadTimeout
	default:
		return fmt.Errorf("goredis: WithReplicas needs a *redis.Client or a *redis.ClusterClient, not a %T", rdb)
	}
	if read > 0 && read <= r.wait {
		return fmt.Errorf("goredis: the read timeout of the redis client, %v, ends before the replicas' %v", read, r.wait)
	}
	return nil
}

// replicatedReply is a reply of a call that must be replicated. short is nil if enough
// replicas have confirmed it, otherwise the reason.
type replicatedReply struct {
	reply
	short error
}

// runReplicatedBatch runs calls about resources of one node, and waits on the same connection
// for the replicas to confirm them. It retries what process retries.
func (e *Engine) runReplicatedBatch(ctx context.Context, rdb redis.UniversalClient, calls []script.Call) []replicatedReply {
	node, err := nodeOf(ctx, rdb, calls[0].Key())
	if err != nil {
		replies := make([]replicatedReply, len(calls))
		for i := range replies {
			replies[i].err = err
		}
		return replies
	}
	replies := e.runReplicatedOn(ctx, node, script.Call.Args, false, calls...)
	for i, c := range calls {
		if err := replies[i].err; isCode(err, "MOVED ") || isCode(err, "ASK ") {
			if other := redirected(ctx, rdb, err); other != nil {
				replies[i] = e.runReplicatedOn(ctx, other, script.Call.Text, isCode(err, "ASK "), c)[0]
			}
		}
	}
	calls = slices.Clone(calls)
	for range replicatedRetries {
		var which []int
		for i := range calls {
			if c, ok := again(calls[i], replies[i].err); ok && ctx.Err() == nil {
				calls[i], which = c, append(which, i)
			}
		}
		if len(which) == 0 {
			break
		}
		for n, v := range e.runReplicatedOn(ctx, node, loading(), false, pick(calls, which)...) {
			replies[which[n]] = v
		}
	}
	return replies
}

// replicatedRetries is how often calls are made again, together, since each round trip may have to wait for the replicas: once for
// scripts that the node does not have, and once for a memory that is full.
const replicatedRetries = 2

// loading returns the arguments of the calls of a pipeline, of which the first one of each script loads it.
func loading() func(script.Call) []any {
	loaded := map[any]bool{}
	return func(c script.Call) []any {
		args := c.Args()
		if loaded[args[1]] {
			return args
		}
		loaded[args[1]] = true
		return c.Text()
	}
}

// runReplicatedOn is runReplicatedBatch on one node, without a retry.
func (e *Engine) runReplicatedOn(ctx context.Context, node *redis.Client, args func(script.Call) []any, asking bool, calls ...script.Call) []replicatedReply {
	pipe := node.Pipeline()
	sent := make([]command, len(calls))
	for i, c := range calls {
		if asking {
			_ = pipe.Process(ctx, newCommand(ctx, []any{"asking"}))
		}
		sent[i] = newCommand(ctx, args(c))
		_ = pipe.Process(ctx, sent[i])
	}
	onDisk := e.options.replicas.fsync && !e.noFsync.Load()
	if onDisk {
		// A replica acknowledges before it has written to its disk, and again a second
		// later or at the next request. So WAIT comes first: at the request of WAITAOF
		// the replicas have the write.
		_ = pipe.Process(ctx, newCommand(ctx, []any{"wait", e.options.replicas.n, milliseconds(e.options.replicas.wait / firstWait)}))
	}
	wait := newCommand(ctx, e.options.replicas.command(onDisk))
	_ = pipe.Process(ctx, wait)
	exec(ctx, pipe)
	if onDisk && isCode(wait.Err(), "ERR unknown command") { // Redis before 7.2
		e.noFsync.Store(true)
		wait = newCommand(ctx, e.options.replicas.command(false))
		pipe = node.Pipeline()
		_ = pipe.Process(ctx, newCommand(ctx, []any{"ping"})) // WAIT covers all writes before this command
		_ = pipe.Process(ctx, wait)
		exec(ctx, pipe)
	}
	replies, short := make([]replicatedReply, len(calls)), e.options.replicas.short(ctx, wait)
	for i, cmd := range sent {
		replies[i].value, replies[i].err = cmd.Result()
		replies[i].short = short
	}
	return replies
}

// firstWait is the fraction of the timeout, one part of 8, for the WAIT before WAITAOF.
const firstWait = 8

// milliseconds returns a timeout for a command in which 0 means none.
func milliseconds(d time.Duration) int64 { return max(d.Milliseconds(), 1) }

// command returns WAIT, or WAITAOF, which waits until the replicas have written to disk.
func (r replicas) command(onDisk bool) []any {
	if onDisk {
		return []any{"waitaof", 0, r.n, milliseconds(r.wait - r.wait/firstWait)}
	}
	return []any{"wait", r.n, r.wait.Milliseconds()}
}

// short returns an error if too few replicas confirmed.
func (r replicas) short(ctx context.Context, wait command) error {
	value, err := wait.Result()
	if pair, ok := value.([]any); ok && len(pair) == 2 { // of WAITAOF
		value = pair[1]
	}
	have, ok := value.(int64)
	switch {
	case isCode(err, "NOPERM"):
		return classify(ctx, err)
	case err != nil || !ok:
		return &ReplicasError{Want: r.n, Within: r.wait, Err: err}
	case int(have) < r.n:
		return &ReplicasError{Have: int(have), Want: r.n, Within: r.wait}
	}
	return nil
}

// nodeOf returns the client of the one server that has a key.
func nodeOf(ctx context.Context, rdb redis.UniversalClient, key string) (*redis.Client, error) {
	switch c := rdb.(type) {
	case *redis.Client:
		return c, nil
	case *redis.ClusterClient:
		return c.MasterForKey(ctx, key)
	}
	return nil, fmt.Errorf("%w: WithReplicas on a %T", engine.ErrDenied, rdb)
}

// redirected returns the client of the node that a MOVED or ASK names, or nil.
// The cluster's client also reloads its slots.
func redirected(ctx context.Context, rdb redis.UniversalClient, err error) *redis.Client {
	addr := err.Error()[strings.LastIndexByte(err.Error(), ' ')+1:]
	nodes, _ := masters(ctx, rdb)
	for _, n := range nodes {
		if c, ok := n.(*redis.Client); ok && c.Options().Addr == addr {
			return c
		}
	}
	return nil
}

// unconfirmed sets the TTL of pushed grants to 0, so that the waiter polls before it uses one:
// the replicas may not have the grant yet.
func unconfirmed(deliver func(engine.Wakeup)) func(engine.Wakeup) {
	return func(w engine.Wakeup) {
		if w.Kind == engine.WakeGrant {
			w.TTL = 0
		}
		deliver(w)
	}
}

// runReplicated runs a call and, with WithReplicas, waits until enough replicas confirm it.
// short is non-nil if too few did.
func (e *Engine) runReplicated(ctx context.Context, rdb redis.UniversalClient, c script.Call) (value any, short, err error) {
	if e.options.replicas.n == 0 {
		value, err = e.run(ctx, rdb, c)
		return value, nil, err
	}
	got, err := bounded(e, ctx, func() (replicatedReply, error) {
		w := e.batchers.poolOf(ctx, c.Key())
		return through(ctx, e, w, func(ctx context.Context, rdb redis.UniversalClient) (replicatedReply, error) {
			v := e.runReplicatedBatch(ctx, rdb, []script.Call{c})[0]
			return v, v.err
		})
	})
	if err == nil {
		e.batchers.learned()
	}
	noticed(rdb, err)
	return got.value, got.short, e.classify(ctx, err)
}
