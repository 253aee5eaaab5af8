package primitivetest_test

import (
	"flag"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// seedFlag replays the one script of a seed that a failure has named.
var seedFlag = flag.Int("seed", 0, "play the script of this seed alone")

// Each primitive does what its model says, under random programs, on a real Redis:
// the same ones that the root's tests run on memory. Several run at once.
func TestModelsOnRedis(t *testing.T) {
	t.Cleanup(func() { leaktest.Check(t) })
	server := redistest.Start(t)
	t.Cleanup(func() { server.RequireTTLs(t) })
	silence := redistest.WatchSilence(&redis.Options{Addr: server.Addr(), ReadTimeout: -1})
	t.Cleanup(silence.Stop)
	primitivetest.RealStore{AtOnce: 12, Seed: *seedFlag, Silence: silence.Since, Open: func() (engine.Engine, func(), error) {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		return goredis.New(rdb), func() { _ = rdb.Close() }, nil
	}}.Run(t)
}
