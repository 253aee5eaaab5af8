// Package enginetest provides the conformance tests of engines: what every
// engine must do, whatever it stores its queues in. An engine runs them as
//
//	func TestConformance(t *testing.T) {
//		enginetest.Run(t, func(t testing.TB) engine.Engine { return memory.New() })
//	}
//
// The tests run in real time and take about six seconds. Each test uses its own
// prefix and clients, so open may return engines of the same store. The tests
// assume that the store keeps its data, that its clock runs at the rate of this
// machine's, and that it responds well within a second.
package enginetest

import (
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

// Run runs the tests. It calls open for each of them; open must register its
// clean-up with t.Cleanup. Run returns when all tests have ended. The tests
// that wait for a lease to end run at the same time as the others, which run
// one after another.
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

// An Option excludes tests of what an engine does not promise.
type Option func(*options)

type options struct{ unordered, estimates bool }

// Estimates is for an engine that only estimates its store's clock. A lease may last
// longer in the store than its TTL, by 200 ms at most.
func Estimates() Option { return func(o *options) { o.estimates = true } }

// Unordered is for an engine that cannot grant to waiters, such as a quorum. It
// promises no order of arrival, no place in the queue and no grant to a waiter
// between its requests. A waiter repeats its request after the time that the
// answer contains. All other tests apply.
func Unordered() Option { return func(o *options) { o.unordered = true } }

// of removes the tests of what is not promised.
func (o options) of(cases []testCase) []testCase {
	return slices.DeleteFunc(cases, func(c testCase) bool { return o.unordered && slices.Contains(ofOrder(), c.name) })
}

// ofOrder returns the names of the tests of a queue: places in it, its front,
// grants from it.
func ofOrder() []string {
	return []string{
		"DirectGrantNotClaimed", "DeadWaitersCostOneClaimWindow", "DeadWaiterIsDropped", "PollingKeepsPlace", "ResizeOfExpired",
		"QueuedTellsPosition", "RepeatedAcquireOfWaiterKeepsPlace", "FirstComeFirstServed", "NobodyPassesTheFront",
		"DirectGrantIsClaimed", "YieldPassesToWaiter", "BreakWaiter", "BreakReasonOfWaiter", "HeavyRequestIsNotPassed", "ReadersEnterTogether",
		"ResizeGrantsTheFront", "SnapshotContents", "SnapshotShowsTheDead", "EachGrantIsDelivered",
		"TurnsInOrderOfPlaces", "TurnIsTakenOut", "WaitersComeBeforeTurns", "TurnsShareCapacity", "BallotAtAPlacePasses",
		"DeadTurnIsDropped", "MarkSendsTurnsAway", "FirstWaiterRecalls", "RecallAfterAWaiterLeft", "WriterRecallsReaders",
	}
}

type testCase struct {
	name string
	run  func(s *scene)
}

// waitingCases returns the tests that mostly wait.
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
		{"SnapshotShowsTheDead", snapshotShowsTheDead},
		{"PeekHidesExpired", peekHidesExpired},
		{"PeekPassesOverTheDead", peekPassesOverTheDead},
	}
}

func quickCases() []testCase {
	return append(slices.Concat(readingCases(), turnCases(), recallCases()), []testCase{
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
		{"BreakReason", breakReason},
		{"BreakReasonOfWaiter", breakReasonOfWaiter},
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
		{"ListMarks", listMarks},
		{"NowIsTheClockOfLeases", nowIsTheClockOfLeases},
		// history.go
		{"HistoryIsKept", historyIsKept},
		{"HistoryIsCapped", historyIsCapped},
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

// readingCases returns the tests of calls that only read.
func readingCases() []testCase {
	return []testCase{
		// observe.go
		{"SnapshotOfUnused", snapshotOfUnused},
		{"SnapshotContents", snapshotContents},
		{"ListByPattern", listByPattern},
		{"ListStopsEarly", listStopsEarly},
		{"AnyName", anyName},
		// reason.go
		{"AnyReason", anyReason},
		// peek.go
		{"PeekOfUnused", peekOfUnused},
		{"PeekOfOneHolder", peekOfOneHolder},
		{"PeekOfMark", peekOfMark},
		{"PeekOfCondition", peekOfCondition},
		{"PeekOfShared", peekOfShared},
	}
}

// turnCases returns the tests of ballots that wait.
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
