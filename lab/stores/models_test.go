package stores_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// seedFlag replays the one script of a seed that a failure has named.
var seedFlag = flag.Int("seed", 0, "play the script of this seed alone")

// atOnce is how many tests run at once, whatever the number of CPUs: most of the time they wait.
const atOnce = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Each primitive does what its model says, under random programs, on every store.
// TestModelsOnRedis in internal/primitivetest has Redis.
func TestModelsOnStores(t *testing.T) {
	t.Cleanup(func() { leaktest.Check(t) })
	for _, s := range stores.Others() {
		if s.Members > 1 {
			continue // for the clients it is like one
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			server, err := s.Launch()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Stop)
			open := func() (engine.Engine, func(), error) {
				c, err := stores.Open(server.URL(), nil)
				if err != nil {
					return nil, nil, err
				}
				return c.Engine, c.Close, nil
			}
			e, end, err := open()
			if err != nil {
				t.Fatal(err)
			}
			ping := func(ctx context.Context) error {
				return primitivetest.Ping(ctx, e, engine.Resource{Prefix: "silence", Name: "ping"})
			}
			silence := redistest.WatchSilenceOf(ping, func() { e.Leave(""); end() })
			t.Cleanup(silence.Stop)
			primitivetest.RealStore{Open: open, Silence: silence.Since, Clockless: s.Name == "etcd" || s.Name == "zookeeper", AtOnce: 1, Seed: *seedFlag}.Run(t)
		})
	}
}
