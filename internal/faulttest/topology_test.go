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

	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// topologyEnv makes the tests that begin with newWorld run on another kind of
// store: "cluster", one master with all slots; "sentinel", a master with two
// replicas that three Sentinels watch; "quorum3" and "quorum5", so many independent
// servers; "memory3" and "memory5", so many memory engines; "miniredis", a miniredis in
// a process of its own. Clients connect to it as such. Which tests a quorum has
// to pass is in quorum_list_test.go, and which miniredis need not in miniredis_test.go.
const topologyEnv = "HOLDFAST_TOPOLOGY"

// sentinelsEnv has the addresses of the Sentinels, for worker processes.
const sentinelsEnv = "HOLDFAST_FAULTTEST_SENTINELS"

// The faults of a mutex on the other kinds of store, in processes of their own: a
// few of them here, all by setting the variable for the whole package. Of a quorum
// TestMinorityUnderFaults always runs as well.
func TestFaultsOnOtherTopologies(t *testing.T) {
	if os.Getenv(topologyEnv) != "" {
		return // this is such a process
	}
	few := []string{
		"TestReplyOfAcquireLost", "TestRedisHung", "TestHolderPausedPastItsTTL", "TestFlushAll", "TestRenewalDoesNotRecreate",
		"TestCloseWithWaiters", "TestLostWakeUp", "TestBreakNotifiesTheHolder",
	}
	more := []string{
		"TestReplyOfReleaseLost", "TestCtxEndsInMidAcquire", "TestHolderKilled", "TestRedisRestartUnderWaiters", "TestScriptFlush", "TestNoPerm",
		"TestNoPermUnderWaiter", "TestWrongType",
	}
	quorum3 := slices.Concat(more, few, primitivesOnQuorum())
	if redistest.Long() {
		quorum3 = onQuorum()
	}
	for topology, tests := range map[string][]string{
		"cluster": few, "sentinel": few,
		"quorum3": quorum3, "quorum5": few,
		"memory3": onMemories(), "memory5": onMemories(),
		"miniredis": append([]string{"TestReplyOfReleaseLost", "TestHolderKilled", "TestRedisRestartUnderWaiters", "TestScriptFlush"}, few...),
	} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), exe, "-test.run", exactly(tests), "-test.v")
			cmd.Env = append(os.Environ(), topologyEnv+"="+topology)
			if os.Getenv(primitivetest.SoakEnv) == "" && !redistest.Long() {
				cmd.Env = append(cmd.Env, primitivetest.SoakEnv+"=2s")
			}
			out, err := cmd.CombinedOutput()
			if ran := strings.Count("\n"+string(out), "\n--- PASS: "); err != nil || ran != len(tests) {
				t.Errorf("%d of %d passed, %v:\n%s", ran, len(tests), err, out)
			}
		})
	}
}

// startStore starts the store of a fixture, or one node of it, and returns its master.
func startStore(t *testing.T, opts ...redistest.Option) *redistest.Server {
	t.Helper()
	switch os.Getenv(topologyEnv) {
	case "cluster":
		s := redistest.Start(t, append(slices.Clone(opts), redistest.WithArgs("--cluster-enabled", "yes"))...)
		if err := s.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
			t.Fatal(err)
		}
		w := newBareFixture(t)
		w.eventually("the cluster is complete", func() bool {
			return strings.Contains(s.Client().ClusterInfo(t.Context()).Val(), "cluster_state:ok")
		})
		return s
	case "sentinel":
		group := redistest.StartSentinel(t, opts...)
		t.Setenv(sentinelsEnv, strings.Join(group.Addrs(), ","))
		return group.Master()
	case "miniredis":
		return redistest.StartMiniredis(t, opts...)
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
