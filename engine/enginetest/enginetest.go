// Package enginetest is the conformance suite of engines: what every one has to
// do, whatever it stores its queues in. An engine passes it by
//
//	func TestConformance(t *testing.T) {
//		enginetest.Run(t, func(t testing.TB) engine.Engine { return memory.New() })
//	}
//
// The suite runs in real time, about ten seconds, its tests in parallel. Each
// uses a prefix and clients of its own, so open may give all of them one store.
// The tests assume a store that keeps its data, whose clock runs at the rate of
// this machine's, and that answers within a second.
package enginetest

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

// Run runs the suite. It calls open for each test, which closes what it opened
// by t.Cleanup; Run returns when all tests have ended.
func Run(t *testing.T, open func(t testing.TB) engine.Engine) {
	t.Helper()
	t.Run("Engine", func(t *testing.T) {
		for _, c := range cases() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(newScene(t, open(t)))
			})
		}
	})
}

type testCase struct {
	name string
	run  func(s *scene)
}

func cases() []testCase {
	return []testCase{
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
		{"DirectGrantNotClaimed", directGrantNotClaimed},
		{"DeadWaitersCostOneClaimWindow", deadWaitersCostOneClaimWindow},
		{"DeadWaiterIsDropped", deadWaiterIsDropped},
		{"YieldPassesToWaiter", yieldPassesToWaiter},
		{"YieldWithoutWaiters", yieldWithoutWaiters},
		// renew.go
		{"RenewedLeaseLives", renewedLeaseLives},
		{"RenewNeverShortens", renewNeverShortens},
		{"RenewBatch", renewBatch},
		{"ExpiredLeasePassesByPoll", expiredLeasePassesByPoll},
		{"ExpiredReaderGoesAlone", expiredReaderGoesAlone},
		// endings.go
		{"CauseExpiredThenTaken", causeExpiredThenTaken},
		{"CauseDeleted", causeDeleted},
		{"CauseReleased", causeReleased},
		{"BreakHolder", breakHolder},
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
		// tokens.go
		{"TokensGrow", tokensGrow},
		{"ReservedTokensAreNotGivenAgain", reservedTokensAreNotGivenAgain},
		{"BallotAccepted", ballotAccepted},
		{"BallotOutbid", ballotOutbid},
		{"BallotTooFar", ballotTooFar},
		{"BallotNeverQueues", ballotNeverQueues},
		// observe.go
		{"SnapshotOfUnused", snapshotOfUnused},
		{"SnapshotContents", snapshotContents},
		{"ListByPattern", listByPattern},
		{"ListStopsEarly", listStopsEarly},
		{"AnyName", anyName},
		// wakeups.go
		{"EachGrantIsDelivered", eachGrantIsDelivered},
		{"WakeupsStayWithinPrefix", wakeupsStayWithinPrefix},
		{"ClosedListenerIsSilent", closedListenerIsSilent},
		{"LeaveKeepsLeases", leaveKeepsLeases},
		// limits.go
		{"ContextEndedBefore", contextEndedBefore},
		{"ContextEndsMeanwhile", contextEndsMeanwhile},
		{"CounterIsExact", counterIsExact},
	}
}
