package fence

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// DefaultRetention is how long a guard in Redis keeps the newest token after the
// latest access.
const DefaultRetention = 24 * time.Hour

const (
	minRetention  = time.Minute
	defaultPrefix = "fence"
	maxPrefixLen  = 128
)

// A Redis guards data in Redis with a key beside the data, the guard, that
// contains the newest token of a resource. It is safe for concurrent use.
//
// In a cluster, the guard and the data must be in one slot. This holds for data
// under the resource's own name ("stock:42") and for data with the name as their
// hash tag ("{stock:42}:reserved"). If the resource's name itself has a hash tag
// ("cart:{7}"), it holds for data with the same tag. With a ClusterClient or a
// Ring, other keys are refused with ErrInvalid before anything is sent; with
// other clients the server returns CROSSSLOT.
//
// A guard has a TTL, the retention, that restarts with every access, also a
// refused one. After it, a stale holder's write is accepted. Therefore the
// retention must be longer than the longest pause after which a process can
// continue, and guards must not be evicted: use the maxmemory-policy noeviction.
// The caller sets the TTL of the data.
//
// Calls are bounded by ctx, even if Redis hangs. If the connection fails or ctx
// ends, the outcome is unknown, as for any write.
type Redis struct {
	rdb       redis.UniversalClient
	prefix    string
	retention time.Duration // 0: for ever
	empty     *Script       // of Claim
	command   *Script       // of Command
	err       error
}

// A RedisOption configures a Redis guard. Options are checked at the first use,
// which returns ErrInvalid if one is invalid.
type RedisOption func(*Redis)

// WithRetention sets how long the newest token is kept after the latest access
// (default 24 h, at least 1 min). If the retentions of a resource's guards
// differ, the longest applies.
func WithRetention(d time.Duration) RedisOption {
	return func(g *Redis) {
		if d < minRetention {
			g.fail(optionError("retention %v: use at least %v", d, minRetention))
		}
		g.retention = d
	}
}

// WithoutExpiry keeps guards for ever: one small key for every resource that
// was claimed.
func WithoutExpiry() RedisOption { return func(g *Redis) { g.retention = 0 } }

// WithPrefix sets the prefix of guard keys (default "fence"; 1 to 128 bytes
// without braces). All writers of the same data must use the same prefix.
func WithPrefix(prefix string) RedisOption {
	return func(g *Redis) {
		if prefix == "" || len(prefix) > maxPrefixLen || strings.ContainsAny(prefix, "{}") {
			g.fail(optionError("prefix %q: use 1 to %d bytes without braces", prefix, maxPrefixLen))
		}
		g.prefix = prefix
	}
}

// NewRedis returns a guard for data in the Redis of rdb. It need not be the Redis
// of the locks.
func NewRedis(rdb redis.UniversalClient, opts ...RedisOption) *Redis {
	g := &Redis{
		rdb:       rdb,
		prefix:    defaultPrefix,
		retention: DefaultRetention,
		empty:     NewScript(""),
		command:   NewScript("return redis.call(table.remove(ARGV, 1), KEYS[1], unpack(ARGV))"),
	}
	if rdb == nil {
		g.fail(optionError("the Redis client is nil"))
	}
	for _, opt := range opts {
		if opt == nil {
			g.fail(optionError("a RedisOption is nil"))
			continue
		}
		opt(g)
	}
	return g
}

// Claim makes token the newest of a resource: from now on older ones are
// refused. Claim before the first read. The same token may claim again. Errors:
// ErrStale if there is a newer one; ErrToken; ErrInvalid; those of go-redis.
func (g *Redis) Claim(ctx context.Context, resource string, token uint64) error {
	err := g.Do(ctx, resource, token, g.empty, nil).Err()
	if errors.Is(err, redis.Nil) {
		return nil // the empty script's answer
	}
	return err
}

// Do claims the token and runs a script in one atomic step: either the token is
// refused and the script does not run, or no call with a newer token came
// before it. The result is that of the script. Its error may be ErrStale,
// ErrToken, ErrInvalid, redis.Nil for a nil reply, or an error of go-redis.
// Unlike other commands of go-redis, the script is not sent again after a lost
// reply, so a script that counts does not count twice.
func (g *Redis) Do(ctx context.Context, resource string, token uint64, s *Script, keys []string, args ...any) *redis.Cmd {
	guard := guardKey(g.prefix, resource)
	if err := g.check(resource, guard, token, s, keys); err != nil {
		return failed(ctx, err)
	}
	cmd, err := bounded(ctx, func() *redis.Cmd { return g.run(ctx, s, guard, token, keys, args) })
	if err != nil {
		return failed(ctx, opError("guarded call of", resource, err))
	}
	if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
		cmd.SetErr(staleOr(err, resource, token))
	}
	return cmd
}

// Command claims the token and runs one Redis command on one key in one atomic
// step:
//
//	guard.Command(ctx, "stock:42", token, "HSET", "stock:42", "left", 9)
//
// The first argument of the command must be its key. It may have at most some
// thousand arguments. Results and errors are those of Do.
func (g *Redis) Command(ctx context.Context, resource string, token uint64, name, key string, args ...any) *redis.Cmd {
	return g.Do(ctx, resource, token, g.command, []string{key}, append([]any{name}, args...)...)
}

// Set claims the token and sets key to value. ttl is the TTL of the data; 0
// means none. Errors are those of Do.
func (g *Redis) Set(ctx context.Context, resource string, token uint64, key string, value any, ttl time.Duration) error {
	switch {
	case ttl < 0 || ttl > 0 && ttl < time.Millisecond:
		return optionError("TTL %v: use 0 for none, or at least 1ms", ttl)
	case ttl > 0:
		return g.Command(ctx, resource, token, "SET", key, value, "PX", ttl.Milliseconds()).Err()
	}
	return g.Command(ctx, resource, token, "SET", key, value).Err()
}

// Get claims the token and returns the value of key in one step. Errors are
// those of Do; redis.Nil if the key does not exist.
func (g *Redis) Get(ctx context.Context, resource string, token uint64, key string) (string, error) {
	return g.Command(ctx, resource, token, "GET", key).Text()
}

func (g *Redis) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

// check checks a call before anything is sent.
func (g *Redis) check(resource, guard string, token uint64, s *Script, keys []string) error {
	if g.err != nil {
		return g.err
	}
	if s == nil {
		return optionError("the script is nil: make it with NewScript")
	}
	if err := checkClaim(resource, token); err != nil {
		return err
	}
	return checkSlot(g.rdb, guard, keys)
}

func failed(ctx context.Context, err error) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(err)
	return cmd
}

// run sends the script by its digest. If Redis does not have the script, it has
// executed nothing, and run sends the text.
func (g *Redis) run(ctx context.Context, s *Script, guard string, token uint64, keys []string, args []any) *redis.Cmd {
	all := make([]any, 0, 6+len(keys)+len(args))
	all = append(all, "evalsha", s.sha, len(keys)+1)
	for _, key := range keys {
		all = append(all, key)
	}
	all = append(all, guard)
	all = append(all, args...)
	all = append(all, strconv.FormatUint(token, 10), g.retention.Milliseconds())
	cmd := once{redis.NewCmd(ctx, all...)}
	_ = g.rdb.Process(ctx, cmd)
	if err := cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		all[0], all[1] = "eval", s.text
		cmd = once{redis.NewCmd(ctx, all...)}
		_ = g.rdb.Process(ctx, cmd)
	}
	return cmd.Cmd
}

// once is a command that go-redis does not retry.
type once struct{ *redis.Cmd }

// NoRetry is called by go-redis.
func (once) NoRetry() bool { return true }

// staleOr returns a StaleError if claim.lua refused the token.
func staleOr(err error, resource string, token uint64) error {
	if answer, ok := errors.AsType[redis.Error](err); ok {
		if word, rest, _ := strings.Cut(answer.Error(), " "); word == "STALETOKEN" {
			newest, _, _ := strings.Cut(rest, " ") // Redis may add more text
			if n, bad := strconv.ParseUint(newest, 10, 64); bad == nil {
				return &StaleError{Resource: resource, Token: token, Newest: n}
			}
		}
	}
	return opError("guarded call of", resource, err)
}

// bounded returns when call does or when ctx ends: by default go-redis checks
// ctx neither while it writes nor while it reads. A call that is still running
// ends by the timeouts of its connection.
func bounded(ctx context.Context, call func() *redis.Cmd) (*redis.Cmd, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if ctx.Done() == nil {
		return call(), nil
	}
	done := make(chan *redis.Cmd, 1)
	go func() { done <- call() }()
	select {
	case cmd := <-done:
		return cmd, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
