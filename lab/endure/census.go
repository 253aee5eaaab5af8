package endure

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Bounds of the life of keys, by docs/PROTOCOL.md.
const (
	// longestTTL is that of the units of a latch, which live a minute longer than it. Those of other leases are shorter.
	longestTTL = ttl + time.Minute
	// longestKey: the keys of a resource end two retentions after its last deadline, at the latest.
	longestKey = longestTTL + 2*retention
	// longestName is the time from the making of a name that is used once to the end of its keys.
	longestName = operationLimit + keepMark + longestKey
	// A client is remembered for an hour, and a history for a week.
	longestClient  = time.Hour
	longestHistory = 7 * 24 * time.Hour
)

// redisCensus counts the keys on some servers, and the connections to others.
func redisCensus(ctx context.Context, keysOn, connectionsTo []string) (Census, error) {
	c := Census{Keys: map[string]int{}}
	for _, addr := range keysOn {
		if err := on(addr, func(rdb *redis.Client) error { return c.count(ctx, rdb) }); err != nil {
			return c, fmt.Errorf("keys of %s: %w", addr, err)
		}
	}
	for _, addr := range connectionsTo {
		if err := on(addr, func(rdb *redis.Client) error { return c.connections(ctx, rdb) }); err != nil {
			return c, fmt.Errorf("connections to %s: %w", addr, err)
		}
	}
	return c, nil
}

// on calls f with a connection of its own.
func on(addr string, f func(*redis.Client) error) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	defer rdb.Close()
	return f(rdb)
}

// count adds the keys and the memory of a server.
func (c *Census) count(ctx context.Context, rdb *redis.Client) error {
	now := time.Now()
	var aClient string
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		names, next, err := rdb.Scan(ctx, cursor, "*", 1000).Result()
		if err != nil {
			return err
		}
		ttls := make([]*redis.DurationCmd, len(names))
		_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range names {
				ttls[i] = p.PTTL(ctx, name)
			}
			return nil
		})
		if err != nil && len(names) > 0 {
			return err
		}
		for i, name := range names {
			if ttl := ttls[i].Val(); ttl != -2 && !seen[name] { // -2: it has ended since the scan, which may return a key twice
				seen[name] = true
				if c.add(name, ttl, now) == "client" {
					aClient = name
				}
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	bytes, err := dataset(ctx, rdb)
	if err != nil {
		return err
	}
	c.Memory += bytes
	if aClient != "" { // for an hour they only become more, and that is not what is judged
		if each, err := rdb.MemoryUsage(ctx, aClient).Result(); err == nil {
			c.Memory -= each * int64(c.Keys["client"])
		}
	}
	return nil
}

// dataset returns how much memory the data of a server take.
func dataset(ctx context.Context, rdb *redis.Client) (int64, error) {
	info, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(line, "used_memory_dataset:"); ok {
			return strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO has no used_memory_dataset")
}

// most bounds the lists of a census: the first names say what went wrong.
const most = 10

// add counts one key and returns its kind.
func (c *Census) add(name string, ttl time.Duration, now time.Time) (kind string) {
	kind, resource := kindOf(name)
	c.Keys[kind]++
	longest, known := map[string]time.Duration{"core": longestKey, "line": longestKey, "client": longestClient, "history": longestHistory}[kind]
	made, once := fresh(resource)
	switch {
	case !known:
		c.overstayed("%s is a key of an unknown kind", name)
	case ttl == redistest.NoTTL:
		if len(c.Eternal) < most {
			c.Eternal = append(c.Eternal, name)
		}
	case ttl > longest:
		c.overstayed("%s has a TTL of %v, more than %v", name, ttl, longest)
	case once && now.Sub(made) > longestName:
		c.overstayed("%s is there %v after its name was made", name, now.Sub(made).Round(time.Second))
	}
	return kind
}

func (c *Census) overstayed(format string, args ...any) {
	if len(c.Overstayed) < most {
		c.Overstayed = append(c.Overstayed, fmt.Sprintf(format, args...))
	}
}

// kindOf returns the kind of a key, and the resource that it is of.
func kindOf(key string) (kind, resource string) {
	rest, ok := strings.CutPrefix(key, prefix+":")
	switch {
	case !ok:
		return "other", ""
	case rest == "history":
		return "history", ""
	case strings.HasPrefix(rest, "client:"):
		return "client", ""
	case !strings.HasPrefix(rest, "{"):
		return "other", ""
	}
	resource, tail, ok := strings.Cut(rest[1:], "}")
	switch {
	case ok && tail == "":
		return "core", resource
	case ok && tail == ":line":
		return "line", resource
	}
	return "other", ""
}

// connections adds the connections to a server by the names of their clients.
func (c *Census) connections(ctx context.Context, rdb *redis.Client) error {
	list, err := rdb.ClientList(ctx).Result()
	if err != nil {
		return err
	}
	for field := range strings.FieldsSeq(list) {
		switch name, ok := strings.CutPrefix(field, "name="); {
		case ok && name == measured:
			c.Connections++
		case ok && strings.HasPrefix(name, visitorName):
			c.Visitors++
		}
	}
	return nil
}

// The names of members.
const (
	measured    = "measured"
	visitorName = "visitor-"
)
