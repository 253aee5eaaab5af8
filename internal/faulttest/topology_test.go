package faulttest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// topologyEnv makes the tests that begin with newWorld run on another kind of
// store: "cluster", one master with all slots, or "sentinel", a master with two
// replicas that three Sentinels watch. Clients connect to it as such.
const topologyEnv = "HOLDFAST_TOPOLOGY"

// sentinelsEnv tells worker processes where the Sentinels are.
const sentinelsEnv = "HOLDFAST_FAULTTEST_SENTINELS"

// The faults of a mutex on the other kinds of store, in processes of their own: a
// few of them here, all by setting the variable for the whole package. Those that
// restart the server for most of the time share little on a cluster, whose nodes
// take two seconds for a start.
func TestFaultsOnOtherTopologies(t *testing.T) {
	if os.Getenv(topologyEnv) != "" {
		return // this is such a process
	}
	for _, topology := range []string{"cluster", "sentinel"} {
		t.Run(topology, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			few := "^(TestReplyOfAcquireLost|TestRedisHung|TestHolderPausedPastItsTTL|TestFlushAll|TestRenewalDoesNotRecreate|" +
				"TestCloseWithWaiters|TestLostWakeUp|TestBreakTellsTheHolder)$"
			cmd := exec.CommandContext(t.Context(), exe, "-test.run", few, "-test.v")
			cmd.Env = append(os.Environ(), topologyEnv+"="+topology)
			out, err := cmd.CombinedOutput()
			if ran := strings.Count(string(out), "--- PASS: "); err != nil || ran != strings.Count(few, "Test") {
				t.Errorf("%d passed, %v:\n%s", ran, err, out)
			}
		})
	}
}

// startStore starts the store of a world and returns its master.
func startStore(t *testing.T, opts ...redistest.Option) *redistest.Server {
	t.Helper()
	switch os.Getenv(topologyEnv) {
	case "cluster":
		s := redistest.Start(t, append(slices.Clone(opts), redistest.WithArgs("--cluster-enabled", "yes"))...)
		if err := s.Client().Do(t.Context(), "cluster", "addslotsrange", 0, 16383).Err(); err != nil {
			t.Fatal(err)
		}
		w := &world{t: t}
		w.eventually("the cluster is complete", func() bool {
			return strings.Contains(s.Client().ClusterInfo(t.Context()).Val(), "cluster_state:ok")
		})
		return s
	case "sentinel":
		group := redistest.StartSentinel(t, opts...)
		t.Setenv(sentinelsEnv, strings.Join(group.Addrs(), ","))
		return group.Master()
	}
	return redistest.Start(t, opts...)
}

// connect returns a client of the store whose master is dialled at addr, where a
// proxy may stand before it.
func connect(addr string) redis.UniversalClient {
	dial := func(ctx context.Context, network, to string) (net.Conn, error) {
		if sentinels := strings.Split(os.Getenv(sentinelsEnv), ","); !slices.Contains(sentinels, to) {
			to = addr
		}
		var d net.Dialer
		return d.DialContext(ctx, network, to)
	}
	switch os.Getenv(topologyEnv) {
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, Dialer: dial})
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.SentinelName, SentinelAddrs: strings.Split(os.Getenv(sentinelsEnv), ","), Dialer: dial,
		})
	}
	return redis.NewClient(&redis.Options{Addr: addr})
}
