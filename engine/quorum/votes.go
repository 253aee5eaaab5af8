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

// vote is what one node answered to a request.
type vote struct {
	in  bool // it has answered, or was not asked
	ans engine.Answer
	err error
}

func (v vote) granted() bool { return v.in && v.err == nil && v.ans.Status == engine.Granted }

func (v vote) said(s engine.Status) bool { return v.in && v.err == nil && v.ans.Status == s }

func (v vote) failed(target error) bool { return v.in && errors.Is(v.err, target) }

// verdict is what votes amount to.
type verdict uint8

const (
	undecided verdict = iota
	nearly            // as many as are needed have answered, and that is not enough to tell
	granted
	refused
)

// judge decides as early as it can be decided, and not earlier: a refusal is decided
// when it is also clear which one it is. need is a majority or more.
func judge(votes []vote, need int) verdict {
	yes, pending := 0, 0
	for _, v := range votes {
		switch {
		case !v.in:
			pending++
		case v.granted():
			yes++
		}
	}
	lost := failed(votes, engine.ErrUnavailable)
	switch {
	case yes >= need:
		return granted
	case pending == 0, yes+pending < need && alike(votes, need):
		return refused
	case len(votes)-pending-lost >= need:
		return nearly
	}
	return undecided
}

// alike tells whether so many nodes refuse for one reason that the others cannot
// make it another.
func alike(votes []vote, need int) bool {
	majority, spare := len(votes)/2+1, len(votes)-need
	if _, seen := inTheWay(votes); seen > spare {
		return true
	}
	return said(votes, engine.Marked) >= majority ||
		said(votes, engine.Outbid)+said(votes, engine.Granted) >= need ||
		failed(votes, engine.ErrMismatch) >= max(majority, spare+1) || failed(votes, engine.ErrTooHeavy) > spare ||
		failed(votes, engine.ErrBallot) > spare || failed(votes, engine.ErrDenied) > spare ||
		failed(votes, engine.ErrUnavailable) > len(votes)-majority
}

// count tells for how many votes a condition holds.
func count(votes []vote, is func(vote) bool) int {
	n := 0
	for _, v := range votes {
		if is(v) {
			n++
		}
	}
	return n
}

// said counts an answer.
func said(votes []vote, s engine.Status) int {
	return count(votes, func(v vote) bool { return v.said(s) })
}

func failed(votes []vote, target error) int {
	return count(votes, func(v vote) bool { return v.failed(target) })
}

// window is what is left of a lease on enough nodes: the least of the best.
func window(votes []vote, need int) time.Duration {
	return kth(votes, need, engine.Granted, func(a engine.Answer) time.Duration { return a.TTL })
}

// kth is the k-th largest of what those who gave an answer say; 0 if they are less.
func kth[T cmp.Ordered](votes []vote, k int, s engine.Status, of func(engine.Answer) T) T {
	var all []T
	for _, v := range votes {
		if v.said(s) {
			all = append(all, of(v.ans))
		}
	}
	if len(all) < k {
		var none T
		return none
	}
	slices.Sort(all)
	return all[len(all)-k]
}

// refusal is the answer to a request that was not granted. split tells that nobody
// is known to be in the way but others who try.
func refusal(votes []vote, need int) (ans engine.Answer, split bool, err error) {
	majority := len(votes)/2 + 1
	spare := len(votes) - need // so many nodes can do without
	answered := count(votes, func(v vote) bool { return v.in && v.err == nil })
	another := failed(votes, engine.ErrMismatch) > spare
	switch {
	case said(votes, engine.Marked) >= majority:
		left := kth(votes, majority, engine.Marked, func(a engine.Answer) time.Duration { return a.Next })
		return engine.Answer{Status: engine.Marked, Next: left}, false, nil
	case another && len(votes)-answered >= majority:
		return ans, false, engine.ErrMismatch
	case failed(votes, engine.ErrTooHeavy) > spare:
		return ans, false, engine.ErrTooHeavy
	case failed(votes, engine.ErrBallot) > spare:
		return ans, false, fmt.Errorf("%w: quorum: %d of %d nodes say so: their clocks and this one are too far apart", engine.ErrBallot, failed(votes, engine.ErrBallot), len(votes))
	}
	if outbid := said(votes, engine.Outbid); outbid > 0 && outbid+said(votes, engine.Granted) >= need {
		return engine.Answer{Status: engine.Outbid, Last: highest(votes)}, false, nil
	}
	if ans, seen := inTheWay(votes); seen > spare || seen > 0 && answered >= majority {
		bars := min(majority, len(votes)-majority+1) // who has so many nodes keeps all others out
		return ans, seen+len(votes)-answered < bars, nil
	}
	if said(votes, engine.Marked) > 0 && answered == len(votes) {
		return engine.Answer{Status: engine.Busy}, true, nil // it ends at this moment, or has just begun
	}
	if another {
		// A majority knows of no other kind, so nobody holds one: what the others have
		// is being given back, or was never granted.
		return engine.Answer{Status: engine.Busy}, true, nil
	}
	return ans, false, notGranted(votes, need)
}

// highest is the highest token that anybody has given.
func highest(votes []vote) uint64 {
	last := uint64(0)
	for _, v := range votes {
		if v.said(engine.Outbid) {
			last = max(last, v.ans.Last)
		}
	}
	return last
}

// inTheWay is the answer about the holder whom most nodes name, and how many do. A
// lease may have different names on different nodes.
func inTheWay(votes []vote) (engine.Answer, int) {
	seen := map[engine.Held]int{}
	var best engine.Answer
	most, waiters, last := 0, 0, uint64(0)
	for _, v := range votes {
		if !v.said(engine.Busy) {
			continue
		}
		ans := v.ans
		if id, token := parseTry(ans.Holder.ID); token != 0 {
			ans.Holder.ID, ans.Holder.Token = id, token
		}
		k := engine.Held{ID: ans.Holder.ID, Token: ans.Holder.Token}
		seen[k]++
		if seen[k] > most {
			best, most = ans, seen[k]
		}
		waiters, last = max(waiters, ans.Waiters), max(last, ans.Last)
	}
	best.Waiters, best.Position, best.Last = waiters, 0, last
	return best, most
}

// behind tells whether others who wait are ahead on more nodes than a request can do
// without: of one that waits itself, ahead of its turn.
func behind(votes []vote, need int, waits bool) bool {
	return count(votes, func(v vote) bool {
		return v.said(engine.Busy) && (v.ans.Position > 0 || !waits && v.ans.Waiters > 0)
	}) > len(votes)-need
}

// lastTurn is the place of the last that waits on a node that has granted. The next
// proposal of this process is above it, so its turn is behind, whatever the clocks say.
func lastTurn(votes []vote) uint64 {
	last := uint64(0)
	for _, v := range votes {
		if v.granted() {
			last = max(last, v.ans.Last)
		}
	}
	return last
}

// notGranted says why there is no better answer.
func notGranted(votes []vote, need int) error {
	var why []error
	for i, v := range votes {
		switch {
		case !v.in:
			why = append(why, fmt.Errorf("node %d has not answered", i+1))
		case v.err != nil:
			why = append(why, fmt.Errorf("node %d: %w", i+1, v.err))
		case v.ans.Status == engine.Marked:
			why = append(why, fmt.Errorf("node %d: marked as done", i+1))
		}
	}
	answered := count(votes, func(v vote) bool { return v.in && !unavailable(v.err) })
	return shortfall(context.Background(), len(votes), "answered", answered, need, why)
}
