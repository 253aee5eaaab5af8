package faulttest

// onQuorum is the tests that a quorum passes: those of the mutex, less those that are
// left out.
func onQuorum() []string {
	return []string{
		"TestReplyOfAcquireLost", "TestReplyOfReleaseLost", "TestCtxEndsInMidAcquire", "TestRedisHung", "TestHolderKilled",
		"TestHolderPausedPastItsTTL", "TestRedisRestartUnderWaiters", "TestRedisRestartWithData", "TestFlushAll", "TestScriptFlush",
		"TestNoPerm", "TestNoPermToSubscribe", "TestNoPermUnderWaiter", "TestWrongType", "TestCloseWithWaiters",
		"TestToldBeforeAnotherEnters", "TestRenewalDoesNotRecreate", "TestTTLTooShort", "TestIdentityIsComparedWhole",
		"TestIdleLeaseCost", "TestStaleHolderKeepsItsToken", "TestLostWakeUp", "TestBreakTellsTheHolder", "TestOneNameAsTwoKinds",
		"TestExclusionUnderLoad", "TestFairnessInOneProcess", "TestMutexUnderFaults", "TestMinorityUnderFaults",
	}
}

// onMemories is those of them that need neither a server nor a process.
func onMemories() []string {
	return []string{
		"TestTTLTooShort", "TestIdentityIsComparedWhole", "TestStaleHolderKeepsItsToken", "TestOneNameAsTwoKinds", "TestCloseWithWaiters",
	}
}

// notOnQuorum is the other tests of this package, and why a quorum is not asked to
// pass them.
func notOnQuorum() map[string]string {
	return byName(map[string]string{
		"a quorum does not promise order between processes": "TestFairnessBetweenProcesses TestFirstComeFirstServed TestFirstComeFirstServedAcrossProcesses " +
			"TestDeadWaitersAtTheFront TestLiveWaiterKeepsItsPlace",
		"a proposed token counts the microseconds of its client's clock; it orders grants and ends none": "TestNoClientClockInTheStore",
		"not of the mutex, which is what this suite shows on a quorum": "TestCondUnderFaults TestElectionUnderFaults TestLeaderCutOff " +
			"TestObserveOverRestart TestJobUnderFaults TestLatchRoundsUnderFaults TestLatchUnderFaults TestMultiUnderFaults TestHolderOfAMultiKilled " +
			"TestMultiIsToldOfABreak TestMultiUnderKills TestOnceUnderFaults TestReadersAndWritersUnderFaults TestManyReadersAndWritersDrain " +
			"TestKilledReadersVanish TestWriterIsNotStarved TestDemoteWakesParkedReaders TestSemaphoreUnderFaults TestManyWaitersOfASemaphoreDrain " +
			"TestUnitsOfKilledHoldersReturn TestHeavyRequestIsNotStarved",
		"a fallback is the client's and begins at the engine's ErrUnavailable, whichever engine": "TestFallbacks TestWaiterFallsBack TestShortOutageIsRiddenOut",
		"it is about failover or slots, which a quorum has not": "TestHandOffsInACluster TestMasterKilledInMidHold TestDoubleGrantIsFenced " +
			"TestTooFewReplicasNoGrant TestSentinelFailsOver TestMultiOnACluster",
		"it is about the tests themselves": "TestJudgeOfStays TestJudgeOfLeftovers TestFaultsOnOtherTopologies TestListsAreWhole",
	})
}
