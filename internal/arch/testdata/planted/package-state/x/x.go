package x

import (
	_ "embed"
	"errors"
	"regexp"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Allowed.
var (
	ErrLost     = errors.New("lost")
	pattern     = regexp.MustCompile("x")
	names       = map[string]int{"a": 1}
	_       any = (*redis.Client)(nil)
)

//go:embed x.lua
var text string

var release = redis.NewScript(text)

// Not allowed.
var (
	mu      sync.Mutex                  // want
	count   int                         // want
	clients = make(map[string]int)      // want
	byName  = map[string]int{}          // want
	list    = []int{1}                  // want
	first   = map[string]int{}          // want
	pointed = [1]int{}                  // want
	pool    = sync.OnceValue(newClient) // want
)

func newClient() *redis.Client { return nil }

func change() {
	byName["a"]++
	list[0], _ = 2, names["a"]
	delete(first, "a")
	_ = &pointed
	local := map[string]int{}
	local["a"] = 1
}
