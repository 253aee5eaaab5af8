package subject

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// Connect returns the options of connections that the lab gives to subjects:
// go-redis sends nothing twice, so that what is sent again is the lock's own
// doing, and it heeds the end of a ctx.
func Connect(addr string) *redis.Options {
	return &redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: 3 * time.Second}
}
