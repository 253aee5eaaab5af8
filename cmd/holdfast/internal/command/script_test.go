package command

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/transcript"
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
