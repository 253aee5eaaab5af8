package subject

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// Connect returns the options of the subjects' connections: go-redis does not retry, so
// that only the lock itself repeats commands, and a call returns when its ctx ends.
func Connect(addr string) *redis.Options {
	return &redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: 3 * time.Second}
}
