package command

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/transcript"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

func TestMain(m *testing.M) {
	transcript.Main(m, Main, map[string]func(){"guard-by-hand": guardByHand})
}

// guardByHand runs the guard as a user may start it by hand.
func guardByHand() { os.Exit(guard.Main([]string{guard.Name})) }

// waitTimeout is how long a test waits for an event before it fails.
const waitTimeout = 20 * time.Second

// TestScripts runs testdata/*.txtar, each against a redis-server of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	transcript.OnRedis(t, "testdata", transcript.Commands{
		// redis-tls: starts a server for TLS at $TLSADDR, with ca.crt, client.crt and client.key.
		"redis-tls": func(ts *testscript.TestScript, _ bool, _ []string) { startTLS(ts) },
		// evil-lease: a client whose name and host have control characters locks a resource of such a name.
		"evil-lease": func(ts *testscript.TestScript, _ bool, _ []string) { evilLease(ts) },
		// leases N: N clients hold a lease each, of resources of their own.
		"leases": leases,
		// reads MIN MAX: so often the server has read from a connection since "redis config resetstat".
		"reads": reads,
	})
}

func evilLease(ts *testscript.TestScript) {
	const evil = "host\x1b[31m\u202e\r\nx"
	db := redis.NewClient(&redis.Options{Addr: ts.Getenv("ADDR")})
	ts.Defer(func() { _ = db.Close() })
	c, err := holdfast.New(goredis.New(db), holdfast.WithName(evil), holdfast.WithMeta(holdfast.Meta{Host: evil, PID: 1}))
	ts.Check(err)
	ts.Defer(func() { _ = c.Close() })
	_, err = c.Mutex(evil, holdfast.WithReason(evil)).Lock(context.Background())
	ts.Check(err)
}

func leases(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	db := redis.NewClient(&redis.Options{Addr: ts.Getenv("ADDR")})
	defer db.Close()
	e := goredis.New(db)
	var work errgroup.Group
	work.SetLimit(64)
	for i := range n {
		work.Go(func() error {
			client := fmt.Sprint("c", i)
			_, err := e.Acquire(context.Background(), engine.Request{
				Resource: engine.Resource{Prefix: "holdfast", Name: fmt.Sprint("stock:", i)}, Client: &engine.Client{ID: client, Name: client},
				ID: client + ".a", Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Hour,
			})
			return err
		})
	}
	ts.Check(work.Wait())
	for i := range n {
		e.Leave(fmt.Sprint("c", i))
	}
}

func reads(ts *testscript.TestScript, _ bool, args []string) {
	least, err := strconv.Atoi(args[0])
	ts.Check(err)
	most, err := strconv.Atoi(args[1])
	ts.Check(err)
	db := redis.NewClient(&redis.Options{Addr: ts.Getenv("ADDR")})
	defer db.Close()
	stats, err := db.InfoMap(context.Background(), "stats").Result()
	ts.Check(err)
	got, err := strconv.Atoi(stats["Stats"]["total_reads_processed"])
	ts.Check(err)
	ts.Logf("%d reads", got)
	if got < least || got > most {
		ts.Fatalf("%d reads, want %d to %d", got, least, most)
	}
}
