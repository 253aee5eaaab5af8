package faulttest

import (
	"os"
)

// miniredis is a Redis written in Go for tests, which may run Holdfast on it. Here it is a
// process of its own, so that what is done to a server is done to it: it is killed, stopped
// and cut off.

func onMiniredis() bool { return os.Getenv(topologyEnv) == "miniredis" }

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
