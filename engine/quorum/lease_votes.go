package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// vote is the answer of one node to a ballot.
type vote struct {
	answered bool // also if it was not called
	ans      engine.Answer
	err      error
}

func (v vote) status(s engine.Status) bool { return v.answered && v.err == nil && v.ans.Status == s }

// verdict is the result of the votes so far.
type verdict uint8

const (
	undecided     verdict = iota
	enoughAnswers         // need nodes have answered, but their answers do not decide
	granted
	refused
)

// votesNeeded returns how many nodes must grant a lease, so that at no instant more than the
// capacity is held. Two majorities have a node in common, which grants only one of two leases
// that exclude each other, such as a writer and a reader: for these a majority suffices. In a
// semaphore, holders with a total weight of w use votesNeeded·w of the nodes·capacity units on all
// nodes, so w stays below capacity + 1 only if votesNeeded is above nodes·capacity/(capacity+1).
func (e *Engine) votesNeeded(kind engine.Kind, capacity int) int {
	n := len(e.nodes)
	switch kind {
	case engine.KindRW, engine.KindCond:
		return e.majority // the capacity is unlimited
	case engine.KindLatch:
		return e.majority // any two weights are more than the capacity
	}
	if capacity >= n {
		return n
	}
	return max(e.majority, n*capacity/(capacity+1)+1)
}

// barrier returns on how many nodes a lease, or a mark, excludes all other leases: without them
// there is no majority. It is less than a majority if the number of nodes is even.
func barrier(nodes int) int { return (nodes + 1) / 2 }

// decide returns the verdict as early as it is certain. A refusal is certain only when its
// reason is certain too. need is a majority or more.
func decide(votes []vote, need int) verdict {
	pending := count(votes, func(v vote) bool { return !v.answered })
	yes := countStatus(votes, engine.Granted)
	switch {
	case yes >= need:
		return granted
	case pending == 0, yes+pending < need && sameRefusal(votes, need):
		return refused
	case len(votes)-pending-countError(votes, engine.ErrUnavailable) >= need:
		return enoughAnswers
	}
	return undecided
}

// sameRefusal reports whether so many nodes refuse for the same reason that the answers of the
// other nodes cannot change the refusal.
func sameRefusal(votes []vote, need int) bool {
	majority, spare := len(votes)/2+1, len(votes)-need
	if _, named := mostNamedHolder(votes); named > spare {
		return true
	}
	return countStatus(votes, engine.Marked) >= barrier(len(votes)) ||
		countStatus(votes, engine.Outbid)+countStatus(votes, engine.Granted) >= need ||
		countError(votes, engine.ErrMismatch) >= max(majority, spare+1) || countError(votes, engine.ErrTooHeavy) > spare ||
		countError(votes, engine.ErrBallot) > spare || countError(votes, engine.ErrDenied) > spare ||
		countError(votes, engine.ErrUnavailable) > len(votes)-majority
}

func count(votes []vote, is func(vote) bool) int {
	n := 0
	for _, v := range votes {
		if is(v) {
			n++
		}
	}
	return n
}

func countStatus(votes []vote, s engine.Status) int {
	return count(votes, func(v vote) bool { return v.status(s) })
}

func countError(votes []vote, target error) int {
	return count(votes, func(v vote) bool { return v.answered && errors.Is(v.err, target) })
}

// grantedTTL returns the TTL that enough nodes grant: the shortest of the need longest.
func grantedTTL(votes []vote, need int) time.Duration {
	return kthLargest(votes, need, engine.Granted, func(a engine.Answer) time.Duration { return a.TTL })
}

// kthLargest returns the k-th largest value of the answers with a status; 0 if there are fewer.
func kthLargest[T cmp.Ordered](votes []vote, k int, s engine.Status, value func(engine.Answer) T) T {
	var all []T
	for _, v := range votes {
		if v.status(s) {
			all = append(all, value(v.ans))
		}
	}
	if len(all) < k {
		return *new(T)
	}
	slices.Sort(all)
	return all[len(all)-k]
}

// refusal returns the answer to a request that was not granted. contended reports that nothing is known
// to conflict with it but other ballots, and marks and leases of another kind on too few nodes to
// count; then err is the reason in case it lasts.
func refusal(votes []vote, need int) (ans engine.Answer, contended bool, err error) {
	majority, spare := len(votes)/2+1, len(votes)-need
	answered := count(votes, func(v vote) bool { return v.answered && v.err == nil })
	mismatch := countError(votes, engine.ErrMismatch) > spare
	switch {
	case countStatus(votes, engine.Marked) >= barrier(len(votes)):
		left := kthLargest(votes, barrier(len(votes)), engine.Marked, func(a engine.Answer) time.Duration { return a.Next })
		return engine.Answer{Status: engine.Marked, Next: left}, false, nil
	case mismatch && len(votes)-answered >= majority:
		return ans, false, engine.ErrMismatch
	case countError(votes, engine.ErrTooHeavy) > spare:
		return ans, false, engine.ErrTooHeavy
	case countError(votes, engine.ErrBallot) > spare:
		return ans, false, fmt.Errorf("%w: quorum: on %d of %d nodes: their clocks and this one are too far apart", engine.ErrBallot, countError(votes, engine.ErrBallot), len(votes))
	}
	if outbid := countStatus(votes, engine.Outbid); outbid > 0 && outbid+countStatus(votes, engine.Granted) >= need {
		return engine.Answer{Status: engine.Outbid, Last: highestLast(votes, engine.Outbid)}, false, nil
	}
	if ans, named := mostNamedHolder(votes); named > spare || named > 0 && answered >= majority {
		return ans, named+len(votes)-answered < barrier(len(votes)), nil
	}
	if countStatus(votes, engine.Marked) > 0 && answered == len(votes) {
		return engine.Answer{Status: engine.Busy}, true, nil // the mark ends now, or has just begun
	}
	if mismatch {
		// No majority has the other kind, so no lease of that kind is held: those on the
		// minority are being released, or were never granted.
		return engine.Answer{Status: engine.Busy}, true, nil
	}
	// A mark, or a lease of another kind, that ends now or has just begun shows on some nodes only.
	others := countError(votes, engine.ErrMismatch)
	passing := others+countStatus(votes, engine.Marked) > 0 && answered+others >= need
	return ans, passing, notGranted(votes, need)
}

// highestLast returns the highest Last of the answers with a status.
func highestLast(votes []vote, s engine.Status) uint64 {
	return kthLargest(votes, 1, s, func(a engine.Answer) uint64 { return a.Last })
}

// mostNamedHolder returns the Busy answer with the holder that most nodes name, and their number.
// A lease may have different IDs on different nodes.
func mostNamedHolder(votes []vote) (engine.Answer, int) {
	named := map[engine.Held]int{}
	var best engine.Answer
	most, waiters, last := 0, 0, uint64(0)
	for _, v := range votes {
		if !v.status(engine.Busy) {
			continue
		}
		lease := leaseOf(v.ans.Holder)
		if named[lease]++; named[lease] > most {
			best, most = v.ans, named[lease]
		}
		waiters, last = max(waiters, v.ans.Waiters), max(last, v.ans.Last)
	}
	best.Holder, best.Waiters, best.Position, best.Last = asLease(best.Holder), waiters, 0, last
	return best, most
}

// behindWaiters reports whether other waiters are ahead of a request on so many nodes that the
// others cannot grant it. If the request waits itself, they are ahead of its turn.
func behindWaiters(votes []vote, need int, waits bool) bool {
	return count(votes, func(v vote) bool {
		return v.status(engine.Busy) && (v.ans.Position > 0 || !waits && v.ans.Waiters > 0)
	}) > len(votes)-need
}

// notGranted returns the error of a ballot whose votes give no answer: how many nodes answered, and
// why the others did not.
func notGranted(votes []vote, need int) error {
	t := tally{nodes: len(votes), need: need}
	for i, v := range votes {
		switch {
		case !v.answered:
			t.failures = append(t.failures, fmt.Errorf("node %d has not answered", i+1))
		case v.err != nil:
			t.failures = append(t.failures, fmt.Errorf("node %d: %w", i+1, v.err))
		case v.ans.Status == engine.Marked:
			t.failures = append(t.failures, fmt.Errorf("node %d: marked as done", i+1))
		}
		if v.answered && !unavailable(v.err) {
			t.confirmations++
		}
	}
	return t.shortfall(context.Background(), "answered")
}
