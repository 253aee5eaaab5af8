package faulttest

// onQuorum is the tests that a quorum passes.
func onQuorum() []string {
	return []string{
		"TestReplyOfAcquireLost", "TestReplyOfReleaseLost", "TestCtxEndsInMidAcquire", "TestRedisHung", "TestHolderKilled",
		"TestHolderPausedPastItsTTL", "TestRedisRestartUnderWaiters", "TestRedisRestartWithData", "TestFlushAll", "TestScriptFlush",
		"TestNoPerm", "TestNoPermToSubscribe", "TestNoPermUnderWaiter", "TestWrongType", "TestCloseWithWaiters",
		"TestNotifiedBeforeAnotherEnters", "TestRenewalDoesNotRecreate", "TestTTLTooShort", "TestIdentityIsComparedWhole",
		"TestIdleLeaseCost", "TestStaleHolderKeepsItsToken", "TestLostWakeUp", "TestBreakNotifiesTheHolder", "TestOneNameAsTwoKinds",
		"TestExclusionUnderLoad", "TestFairnessInOneProcess", "TestMutexUnderFaults", "TestMinorityUnderFaults",
		"TestReadersAndWritersUnderFaults", "TestKilledReadersVanish", "TestDemoteWakesParkedReaders", "TestManyReadersAndWritersDrain",
		"TestWriterIsNotStarved", "TestHeavyRequestIsNotStarved", "TestFairnessBetweenProcesses",
		"TestMultiUnderFaults", "TestMultiUnderKills", "TestHolderOfAMultiKilled", "TestMultiIsNotifiedOfABreak",
		"TestElectionUnderFaults", "TestOnceUnderFaults", "TestJobUnderFaults", "TestLatchUnderFaults", "TestCondUnderFaults",
	}
}

// primitivesOnQuorum is those of other primitives than the mutex that also run in make
// test, for a short while.
func primitivesOnQuorum() []string {
	return []string{
		"TestReadersAndWritersUnderFaults", "TestDemoteWakesParkedReaders", "TestMultiUnderFaults", "TestMultiIsNotifiedOfABreak",
		"TestOnceUnderFaults", "TestLatchUnderFaults", "TestElectionUnderFaults", "TestJobUnderFaults", "TestCondUnderFaults", "TestWriterIsNotStarved",
	}
}

// onMemories is those of them that need neither a server nor a process.
func onMemories() []string {
	return []string{
		"TestTTLTooShort", "TestIdentityIsComparedWhole", "TestStaleHolderKeepsItsToken", "TestOneNameAsTwoKinds", "TestCloseWithWaiters",
	}
}

// notOnQuorum is the other tests of this package, and why a quorum does not have to
// pass them.
func notOnQuorum() map[string]string {
	return byName(map[string]string{
		"a quorum does not promise that processes are served in the order in which they come": "TestFirstComeFirstServed TestFirstComeFirstServedAcrossProcesses " +
			"TestDeadWaitersAtTheFront TestLiveWaiterKeepsItsPlace",
		"a proposed token counts the microseconds of its client's clock; it orders grants and ends none": "TestNoClientClockInTheStore",
		"the test waits until a snapshot shows who waits, or that it is the next one":                    "TestLatchRoundsUnderFaults",
		"it cuts a client off from one server, where a quorum has several":                               "TestLeaderCutOff TestObserveOverRestart",
		"a semaphore needs all nodes, so it stops while one is restarted":                                "TestSemaphoreUnderFaults TestManyWaitersOfASemaphoreDrain TestUnitsOfKilledHoldersReturn",
		"a fallback is the client's and begins at the engine's ErrUnavailable, whichever engine":         "TestFallbacks TestWaiterFallsBack TestShortOutageCausesNoFallback",
		"it is about the requests to one server": "TestLeaderCostsTheSameWithManyCandidates TestObserveCostsTheSameWithManyCandidates " +
			"TestSignalCostsTheSameWithManyWaiters TestNoReadHoldsTheServerUp TestCallersPoolIsTaken TestRefusedConnectionsNameTheirCause",
		"it is about what one client does for very many leases, on whichever engine": "TestManyLeasesWhenTheStoreGoesAway TestCloseOfManyLeases",
		"it is about failover or slots, which a quorum has not": "TestHandOffsInACluster TestMasterKilledInMidHold TestDoubleGrantIsFenced " +
			"TestTooFewReplicasNoGrant TestSentinelFailsOver TestSentinelSplit TestMultiOnACluster",
		"it is about the tests themselves": "TestJudgeOfStays TestJudgeOfTokens TestJudgeOfSharedTokens TestJudgeOfTerms TestJudgeOfLeftovers TestFaultsOnOtherTopologies TestListsAreWhole",
	})
}
