package faulttest

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

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
	reasons := map[string]string{
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
		"it is about the tests themselves": "TestJudgeOfStays TestJudgeOfLeftovers TestFaultsOnOtherTopologies TestQuorumListIsWhole",
	}
	all := map[string]string{}
	for why, names := range reasons {
		for _, name := range strings.Fields(names) {
			all[name] = why
		}
	}
	return all
}

// exactly is the pattern for these tests alone.
func exactly(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// pickTests chooses, on a quorum, the tests that it is asked to pass, unless the
// command line says which, and with -v names the others.
func pickTests() {
	names := onQuorum()
	if inMemory() {
		names = onMemories()
	}
	flag.Parse()
	chosen := flag.Lookup("test.run")
	if sizeOfQuorum() == 1 || chosen.Value.String() != "" {
		return
	}
	if err := chosen.Value.Set(exactly(names)); err != nil {
		panic(err)
	}
	if testing.Verbose() {
		for _, name := range slices.Sorted(maps.Keys(notOnQuorum())) {
			fmt.Printf("left out: %s: %s\n", name, notOnQuorum()[name])
		}
	}
}

// Each test of this package is either for a quorum or left out with a reason.
func TestQuorumListIsWhole(t *testing.T) {
	listed := map[string]int{}
	for _, name := range onQuorum() {
		listed[name]++
	}
	for name := range notOnQuorum() {
		listed[name]++
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") || fn.Name.Name == "TestMain" {
				continue
			}
			if listed[fn.Name.Name] != 1 {
				t.Errorf("%s is %d times in the lists for a quorum", fn.Name.Name, listed[fn.Name.Name])
			}
			delete(listed, fn.Name.Name)
		}
	}
	for name := range listed {
		t.Errorf("%s is listed and is not there", name)
	}
}
