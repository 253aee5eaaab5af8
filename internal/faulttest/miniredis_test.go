package faulttest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// miniredis is a Redis written in Go for tests of others, who may well run Holdfast on
// it. Here it is a process of its own, the test binary in another role, so that what
// is done to a server is done to it: it is killed, stopped and cut off.

// miniredisRole is that of the process that is a store.
const miniredisRole = "miniredis"

func onMiniredis() bool { return os.Getenv(topologyEnv) == "miniredis" }

// startMiniredis starts a process that is a miniredis. Nothing makes it keep data.
func startMiniredis(t *testing.T, opts []redistest.Option) *redistest.Server {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return redistest.Start(t, append(slices.Clone(opts), redistest.WithProgram(exe, roleEnv+"="+miniredisRole))...)
}

// serveMiniredis is the main function of such a process, which only a signal ends. It
// gets the arguments of a redis-server.
func serveMiniredis(args []string) int {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // TTLs run
	i := slices.Index(args, "--port")
	err := m.StartAddr("127.0.0.1:" + args[i+1])
	if errors.Is(err, syscall.EADDRINUSE) {
		fmt.Println("Address already in use") // as redis-server says it
		return 1
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	m.Server().SetPreHook(countScripts())
	fmt.Println("Ready to accept connections")
	select {}
}

// countScripts answers INFO commandstats, which miniredis has not, with the number of
// script calls.
func countScripts() server.Hook {
	var calls atomic.Int64
	return func(c *server.Peer, command string, args ...string) bool {
		switch {
		case command == "EVAL" || command == "EVALSHA":
			calls.Add(1)
		case command == "INFO" && slices.Equal(args, []string{"commandstats"}):
			c.WriteBulk("cmdstat_evalsha:calls=" + strconv.FormatInt(calls.Load(), 10) + "\r\n")
			return true
		}
		return false
	}
}

// notOnMiniredis is the tests of this package that are left out there, and why.
func notOnMiniredis() map[string]string {
	return byName(map[string]string{
		"miniredis keeps no data over a restart":                             "TestRedisRestartWithData TestObserveOverRestart",
		"miniredis has no ACL":                                               "TestNoPerm TestNoPermToSubscribe TestNoPermUnderWaiter",
		"miniredis has no MONITOR; the commands are those that a Redis gets": "TestNoClientClockInTheStore",
		"it starts stores of its own": "TestHandOffsInACluster TestMasterKilledInMidHold TestDoubleGrantIsFenced TestTooFewReplicasNoGrant " +
			"TestSentinelFailsOver TestMultiOnACluster TestMinorityUnderFaults",
		"it is about the tests themselves": "TestJudgeOfStays TestJudgeOfLeftovers TestFaultsOnOtherTopologies TestListsAreWhole",
	})
}

// insteadOnMiniredis is what the tests that run there do otherwise.
func insteadOnMiniredis() []string {
	return []string{
		"a restart with data, in the tests named UnderFaults: the server is stopped for that time, with SIGSTOP, and goes on",
		"CLIENT KILL, in TestLostWakeUp: all connections of the waiter are cut",
		"500 waiters, in the tests named Drain: 100",
	}
}
