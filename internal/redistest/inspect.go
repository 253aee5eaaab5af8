package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// inspectTimeout bounds a query of a server that may hang.
const inspectTimeout = 10 * time.Second

// NoTTL is the TTL of a key that never expires.
const NoTTL time.Duration = -1

// Key is a Redis key with its remaining TTL, or NoTTL.
type Key struct {
	Name string
	TTL  time.Duration
}

// Keys returns all keys of database 0, each once, in no order.
func (s *Server) Keys(ctx context.Context) ([]Key, error) {
	var keys []Key
	err := s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		seen := map[string]bool{}
		for it := c.Scan(ctx, 0, "*", 1000).Iterator(); ; {
			if !it.Next(ctx) {
				return it.Err()
			}
			name := it.Val()
			if seen[name] {
				continue // a scan may return a key twice
			}
			seen[name] = true
			ttl, err := c.PTTL(ctx, name).Result()
			if err != nil {
				return err
			}
			if ttl != -2 { // -2: it has ended since the scan
				keys = append(keys, Key{Name: name, TTL: ttl})
			}
		}
	})
	return keys, err
}

// Since reports whether the server has a version of Redis, such as 7, 2, or a later version.
func (s *Server) Since(major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(s.version(), "%d.%d.", &a, &b); err != nil {
		s.fatal("version %q: %v", s.version(), err)
	}
	return a > major || a == major && b >= minor
}

// version returns the version of the server, such as 7.0.15, or "".
func (s *Server) version() string {
	for line := range strings.Lines(s.info("server")) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// RequireTTLs fails the test if a key has no TTL.
func (s *Server) RequireTTLs(t testing.TB) {
	t.Helper()
	s.forbid(t, "keys without TTL", func(k Key) bool { return k.TTL == NoTTL })
}

// RequireEmpty fails the test if a key starts with prefix.
func (s *Server) RequireEmpty(t testing.TB, prefix string) {
	t.Helper()
	s.forbid(t, fmt.Sprintf("keys left below %q", prefix), func(k Key) bool { return strings.HasPrefix(k.Name, prefix) })
}

func (s *Server) forbid(t testing.TB, what string, bad func(Key) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	keys, err := s.Keys(ctx)
	if err != nil {
		t.Fatalf("redistest: list keys: %v", err)
	}
	var found []string
	for _, k := range keys {
		if bad(k) {
			found = append(found, fmt.Sprintf("%q (TTL %v)", k.Name, k.TTL))
		}
	}
	if len(found) > 0 {
		t.Fatalf("redistest: %s:\n\t%s", what, strings.Join(found, "\n\t"))
	}
}
