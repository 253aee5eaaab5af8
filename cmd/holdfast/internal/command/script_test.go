package command

import (
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/transcript"
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
	})
}
