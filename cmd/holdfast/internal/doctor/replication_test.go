package doctor

import (
	"net"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// port is the number of a server's port.
func port(s *redistest.Server) string {
	_, p, _ := net.SplitHostPort(s.Addr())
	return p
}

// awaitInfo waits until INFO of the server has it.
func awaitInfo(t *testing.T, s *redistest.Server, ok func(fields) bool) {
	t.Helper()
	c := s.Client()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(30 * time.Second); !ok(parseFields(c.Info(t.Context()).Val())); <-tick.C {
		if time.Now().After(limit) {
			t.Fatal("INFO does not change")
		}
	}
}

func online(f fields) bool { return parseReplica(f["slave0"])["state"] == "online" }

func TestReplication(t *testing.T) {
	t.Parallel()
	top := start(t, "--repl-diskless-sync-delay", "0")
	require(t, examine(t, defaults(), top.URL()), "replication", diagnosis.OK, "no replicas")

	copied := start(t, "--replicaof", "127.0.0.1 "+port(top))
	awaitInfo(t, top, online)
	require(t, examine(t, defaults(), top.URL()), "replication", diagnosis.OK, "1 replicas, at most [0-9]+ bytes behind")

	set := func(name, value string) {
		t.Helper()
		if err := top.Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("min-replicas-to-write", "1")
	require(t, examine(t, defaults(), top.URL()), "min-replicas", diagnosis.OK, "min-replicas-to-write 1, min-replicas-max-lag 10")
	set("min-replicas-to-write", "2")
	r := examine(t, defaults(), top.URL())
	require(t, r, "min-replicas", diagnosis.Fail, "every grant is refused")
	requireWorst(t, r, diagnosis.Misconfig)

	copied.Pause()
	awaitInfo(t, top, func(f fields) bool {
		lag, _ := parseReplica(f["slave0"]).number("lag")
		return lag > lagWarn
	})
	require(t, examine(t, defaults(), top.URL()), "replication", diagnosis.Warn, "1 of 1 replicas do not keep up: 127.0.0.1:"+port(copied))
}
