package endure

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

//go:embed enter.lua
var enterScript string

//go:embed leave.lua
var leaveScript string

// vault is the protected side: counters on a Redis that no fault hits. Its scripts judge each entry, so
// nothing is needed from a process that is killed.
type vault struct {
	rdb          *redis.Client
	who          string
	enter, leave *redis.Script
}

const (
	vaultPrefix = "vault:"  // of the counters
	brokenKey   = "broken"  // the list of broken promises
	vaultCall   = time.Hour // a call of the vault has no bound of its own: nothing disturbs it
)

// errStale: the vault refused the token.
var errStale = errors.New("the token is stale")

func openVault(addr, who string) *vault {
	return &vault{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, PipelinePoolSize: -1, ReadTimeout: vaultCall, WriteTimeout: vaultCall}),
		who, redis.NewScript(enterScript), redis.NewScript(leaveScript)}
}

// entrant is what the vault must know of a lease. *holdfast.Lease implements it.
type entrant interface {
	Token() uint64
	Deadline() time.Time
	Err() error
}

// add enters with a lease, calls work, and writes the value that it read plus one.
func (v *vault) add(resource string, l entrant, work func()) error {
	ctx := context.Background() // an entry that has begun is completed, whatever ends the operation
	now, err := sharedMicros()
	if err != nil {
		return err
	}
	if l.Err() != nil {
		return l.Err()
	}
	// The shared clock is read first: a pause in between makes the window shorter.
	till := now + time.Until(l.Deadline()).Microseconds()
	keys, token := []string{vaultPrefix + resource, brokenKey}, strconv.FormatUint(l.Token(), 10)
	reply, err := v.enter.Run(ctx, v.rdb, keys, token, now, till, resource, v.who).Slice()
	if err != nil {
		return fmt.Errorf("enter the vault: %w", err)
	}
	if reply[0] == "stale" {
		if l.Err() == nil { // its window is open, and a holder with a later token has entered
			return v.broken(ctx, "of %s: token %s of %s is stale, %v has entered, and its holder was not notified", resource, token, v.who, reply[1])
		}
		return errStale
	}
	work()
	done, err := v.leave.Run(ctx, v.rdb, keys[:1], token, reply[1].(int64)+1).Int()
	switch {
	case err != nil:
		return fmt.Errorf("leave the vault: %w", err)
	case done == 0 && l.Err() == nil:
		return v.broken(ctx, "of %s: token %s of %s cannot write, a later one has entered, and its holder was not notified", resource, token, v.who)
	case done == 0:
		return errStale
	}
	return nil
}

// broken records a broken promise.
func (v *vault) broken(ctx context.Context, format string, args ...any) error {
	return v.rdb.RPush(ctx, brokenKey, fmt.Sprintf(format, args...)).Err()
}

// audit returns the promises that were broken, and how often counters were entered.
func (v *vault) audit(ctx context.Context) (bad []string, entries int, err error) {
	if bad, err = v.rdb.LRange(ctx, brokenKey, 0, -1).Result(); err != nil {
		return nil, 0, err
	}
	keys, err := v.rdb.Keys(ctx, vaultPrefix+"*").Result()
	if err != nil {
		return nil, 0, err
	}
	for _, key := range keys {
		var c struct {
			Value   int `redis:"value"`
			Writes  int `redis:"writes"`
			Entries int `redis:"entries"`
		}
		if err := v.rdb.HGetAll(ctx, key).Scan(&c); err != nil {
			return nil, 0, err
		}
		if c.Value != c.Writes {
			bad = append(bad, fmt.Sprintf("%s is %d after %d writes: updates were lost", key, c.Value, c.Writes))
		}
		entries += c.Entries
	}
	return bad, entries, nil
}

func (v *vault) close() { _ = v.rdb.Close() }

// sharedMicros reads the clock that all processes of the machine share.
func sharedMicros() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("the monotonic clock: %w", err)
	}
	return ts.Nano() / 1000, nil
}
