// Package enginetest is the conformance suite of engines: what every one has to
// do, whatever it stores its queues in. An engine passes it by
//
//	func TestConformance(t *testing.T) {
//		enginetest.Run(t, func(t testing.TB) engine.Engine { return memory.New() })
//	}
//
// The suite runs in real time, about six seconds. Each test uses a prefix and
// clients of its own, so open may give all of them one store. The tests assume a
// store that keeps its data, whose clock runs at the rate of this machine's, and
// that answers well within a second.
package enginetest

import (
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

// Run runs the suite. It calls open for each test, which closes what it opened
// by t.Cleanup; Run returns when all tests have ended. Tests that wait for a
// lease to end do so together, while the others run one after another.
func Run(t *testing.T, open func(t testing.TB) engine.Engine, opts ...Option) {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	run := func(c testCase) {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, open(t))
			s.options = o
			c.run(s)
		})
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for _, c := range o.of(waitingCases()) {
		waiting.Go(func() { run(c) })
	}
	for _, c := range o.of(quickCases()) {
		run(c)
	}
}

// Option says what an engine does not promise, so that the suite does not ask it.
type Option func(*options)

type options struct{ unordered bool }

// Unordered is for an engine that cannot grant to those who wait, as a quorum
// does: it promises no order of arrival, no place in the queue and no grant to a waiter that does
// not ask. A waiter asks again after the time that it is told, and all else holds.
func Unordered() Option { return func(o *options) { o.unordered = true } }

// of leaves out the tests of what is not promised.
func (o options) of(cases []testCase) []testCase {
	return slices.DeleteFunc(cases, func(c testCase) bool { return o.unordered && slices.Contains(ofOrder(), c.name) })
}

// ofOrder names the tests of a line: places in it, its front, grants from it.
func ofOrder() []string {
	return []string{
		"DirectGrantNotClaimed", "DeadWaitersCostOneClaimWindow", "DeadWaiterIsDropped", "PollingKeepsPlace", "ResizeOfExpired",
		"QueuedTellsPosition", "RepeatedAcquireOfWaiterKeepsPlace", "FirstComeFirstServed", "NobodyPassesTheFront",
		"DirectGrantIsClaimed", "YieldPassesToWaiter", "BreakWaiter", "HeavyRequestIsNotPassed", "ReadersEnterTogether",
		"ResizeGrantsTheFront", "SnapshotContents", "EachGrantIsDelivered",
		"TurnsInOrderOfPlaces", "TurnIsTakenOut", "WaitersComeBeforeTurns", "TurnsShareCapacity", "BallotAtAPlacePasses",
		"DeadTurnIsDropped", "MarkSendsTurnsAway",
	}
}

type testCase struct {
	name string
	run  func(s *scene)
}

// waitingCases mostly wait.
func waitingCases() []testCase {
	return []testCase{
		{"DirectGrantNotClaimed", directGrantNotClaimed},
		{"DeadWaitersCostOneClaimWindow", deadWaitersCostOneClaimWindow},
		{"DeadWaiterIsDropped", deadWaiterIsDropped},
		{"DeadTurnIsDropped", deadTurnIsDropped},
		{"PollingKeepsPlace", pollingKeepsPlace},
		{"RenewedLeaseLives", renewedLeaseLives},
		{"ExpiredLeasePassesByPoll", expiredLeasePassesByPoll},
		{"RenewalHidesNoExpiry", renewalHidesNoExpiry},
		{"ExpiredReaderGoesAlone", expiredReaderGoesAlone},
		{"CauseExpiredThenTaken", causeExpiredThenTaken},
		{"ResizeOfExpired", resizeOfExpired},
		{"MarkEnds", markEnds},
		{"BreakingEndsAtTheDeadline", breakingEndsAtTheDeadline},
		{"SnapshotHidesExpired", snapshotHidesExpired},
		{"PeekHidesExpired", peekHidesExpired},
		{"PeekPassesOverTheDead", peekPassesOverTheDead},
	}
}

func quickCases() []testCase {
	return append(append(readingCases(), turnCases()...), []testCase{
		// batch.go
		{"ReleaseBatch", releaseBatch},
		// acquire.go
		{"GrantsWhatIsFree", grantsWhatIsFree},
		{"BusyTellsWhoHolds", busyTellsWhoHolds},
		{"QueuedTellsPosition", queuedTellsPosition},
		{"RepeatedAcquireIsOne", repeatedAcquireIsOne},
		{"RepeatedAcquireOfWaiterKeepsPlace", repeatedAcquireOfWaiterKeepsPlace},
		{"RepeatedReleaseIsOne", repeatedReleaseIsOne},
		{"ReleaseByStranger", releaseByStranger},
		{"ReleaseLeavesQueue", releaseLeavesQueue},
		// order.go
		{"FirstComeFirstServed", firstComeFirstServed},
		{"NobodyPassesTheFront", nobodyPassesTheFront},
		{"DirectGrantIsClaimed", directGrantIsClaimed},
		{"YieldPassesToWaiter", yieldPassesToWaiter},
		{"YieldWithoutWaiters", yieldWithoutWaiters},
		// renew.go
		{"RenewNeverShortens", renewNeverShortens},
		{"RenewBatch", renewBatch},
		// endings.go
		{"CauseDeleted", causeDeleted},
		{"CauseReleased", causeReleased},
		{"BreakHolder", breakHolder},
		{"BreakOneOfSeveral", breakOneOfSeveral},
		{"BreakWithoutWaiters", breakWithoutWaiters},
		{"BreakThenYield", breakThenYield},
		{"BreakByForce", breakByForce},
		{"BreakWaiter", breakWaiter},
		{"WithdrawBeforeAcquire", withdrawBeforeAcquire},
		{"WithdrawWaiter", withdrawWaiter},
		{"WithdrawHolder", withdrawHolder},
		// weights.go
		{"WeightsShareCapacity", weightsShareCapacity},
		{"HeavyRequestIsNotPassed", heavyRequestIsNotPassed},
		{"ReadersEnterTogether", readersEnterTogether},
		{"KindAndCapacityAreFixedInUse", kindAndCapacityAreFixedInUse},
		{"TooHeavy", tooHeavy},
		// resize.go
		{"ResizeGrantsTheFront", resizeGrantsTheFront},
		{"ResizeKeepsTheLease", resizeKeepsTheLease},
		{"ResizeOnlyLowers", resizeOnlyLowers},
		{"ResizeByStranger", resizeByStranger},
		// marks.go
		{"MarkAtTheGrant", markAtTheGrant},
		{"MarkByTheRelease", markByTheRelease},
		{"MarkOnce", markOnce},
		{"MarkOnlyGrows", markOnlyGrows},
		{"MarkNeedsTheLease", markNeedsTheLease},
		{"MarkOutlivesBreak", markOutlivesBreak},
		{"MarkKeepsTheKind", markKeepsTheKind},
		{"MarkWithWithdrawal", markWithWithdrawal},
		{"MarkOfWaiter", markOfWaiter},
		{"NowIsTheClockOfLeases", nowIsTheClockOfLeases},
		// tokens.go
		{"TokensGrow", tokensGrow},
		{"ReservedTokensAreNotGivenAgain", reservedTokensAreNotGivenAgain},
		{"BallotAccepted", ballotAccepted},
		{"BallotOutbid", ballotOutbid},
		{"BallotTooFar", ballotTooFar},
		{"BallotNeverQueues", ballotNeverQueues},
		// wakeups.go
		{"EachGrantIsDelivered", eachGrantIsDelivered},
		{"WakeupsStayWithinPrefix", wakeupsStayWithinPrefix},
		{"ClosedListenerIsSilent", closedListenerIsSilent},
		{"LeaveKeepsLeases", leaveKeepsLeases},
		// limits.go
		{"ContextEndedBefore", contextEndedBefore},
		{"ContextEndsMeanwhile", contextEndsMeanwhile},
		{"CounterIsExact", counterIsExact},
	}...)
}

// readingCases change nothing but what they read.
func readingCases() []testCase {
	return []testCase{
		// observe.go
		{"SnapshotOfUnused", snapshotOfUnused},
		{"SnapshotContents", snapshotContents},
		{"ListByPattern", listByPattern},
		{"ListStopsEarly", listStopsEarly},
		{"AnyName", anyName},
		// peek.go
		{"PeekOfUnused", peekOfUnused},
		{"PeekOfOneHolder", peekOfOneHolder},
		{"PeekOfMark", peekOfMark},
		{"PeekOfCondition", peekOfCondition},
		{"PeekOfShared", peekOfShared},
	}
}

// turnCases are about ballots that wait.
func turnCases() []testCase {
	return []testCase{
		// turns.go
		{"TurnsInOrderOfPlaces", turnsInOrderOfPlaces},
		{"TurnIsTakenOut", turnIsTakenOut},
		{"WaitersComeBeforeTurns", waitersComeBeforeTurns},
		{"TurnsShareCapacity", turnsShareCapacity},
		{"BallotAtAPlacePasses", ballotAtAPlacePasses},
		{"MarkSendsTurnsAway", markSendsTurnsAway},
	}
}
