package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// again is the Note of an Acquire by a client that holds the lock already.
const again = "re-entry"

// reentry: a holder locks again and succeeds.
func reentry() check.Check {
	return check.Check{Name: "re-entry", Find: func(ops []history.Op) []check.Violation {
		var out []check.Violation
		for _, op := range ops {
			if op.Kind == history.Acquire && op.Note == again && op.Outcome != history.OK {
				out = append(out, check.Violation{Check: "re-entry", Resource: op.Resource, At: op.Call,
					Text: fmt.Sprintf("%s waited for itself for %v", op.Client, op.Return-op.Call)})
			}
		}
		return out
	}}
}

// reentries are the locks that are meant to be re-entrant.
func reentries() []Scenario {
	const resent = "lose-reply a-node1 match stock at a:acquire.start"
	return []Scenario{
		{
			ID: "reentrant-counter/waits-for-itself", Row: "reentrant-counter",
			Hole:   "a fresh value each call never re-enters: a holder that locks again waits for itself",
			Trials: []Trial{{Subject: "reentrant-counter", TTL: long, Wait: kept}, {Subject: "holdfast", TTL: long, Wait: long}, {Subject: "holdfast-memory", TTL: long, Wait: long}},
			Checks: []check.Check{reentry()}, clients: []string{"a"}, play: locksAgain,
		},
		{
			ID: "reentrant-hash/counted-twice", Row: "reentrant-hash",
			Hole: "an acquire that is sent again after a lost reply counts twice: one release does not free it, and the timers keep it alive",
			Trials: []Trial{
				{Subject: "reentrant-hash", TTL: unfreedFor - kept, Wait: inVain, Faults: resent},
				{Subject: "holdfast", TTL: ours, Wait: long, Faults: resent},
			},
			Checks: []check.Check{check.Deadlock(unfreedFor)}, clients: []string{"a", "b"}, warm: true, play: usesAndFrees,
		},
		{
			ID: "reentrant-hash/timers", Row: "reentrant-hash",
			Hole:   "the timers that renew double each third of the TTL and outlive the unlock",
			Trials: []Trial{{Subject: "reentrant-hash", TTL: short}, {Subject: "holdfast", TTL: ours}},
			Checks: nil, clients: []string{"a"}, play: keepsRenewing,
		},
	}
}

// locksAgain: a holds and locks again.
func locksAgain(ctx context.Context, st *scenarioRun) error {
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	op := history.Op{Client: "a", Kind: history.Acquire, Resource: resource, Call: st.rec.Now(), Outcome: history.OK, Note: again}
	err = within(ctx, st.trial.Wait, func(ctx context.Context) error {
		h, err := st.clients["a"].Acquire(a.hold.Within(ctx), resource)
		if err != nil {
			return err
		}
		return h.Release(ctx)
	})
	op.Return, op.Holder = st.rec.Now(), a.name
	if err != nil {
		op.Outcome = history.Failed
	}
	st.rec.Add(op)
	return a.release(ctx)
}

// keepsRenewing: a holds for some renewals and releases; then it must renew no more.
func keepsRenewing(ctx context.Context, st *scenarioRun) error {
	var renewals atomic.Int64
	st.onStep = func(who, step string) {
		if step == "renew.start" {
			renewals.Add(1)
		}
	}
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	if err := st.awaitOr(ctx, "nobody", "never", st.trial.TTL*4/3+10*time.Millisecond); err != nil {
		return err
	}
	if err := a.release(ctx); err != nil {
		return err
	}
	before := renewals.Load()
	if err := st.awaitOr(ctx, "nobody", "never", st.trial.TTL*2/3+10*time.Millisecond); err != nil {
		return err
	}
	// One may have been under way.
	if after := renewals.Load() - before; after > 1 {
		st.left = append(st.left, check.Finding{Resource: resource, At: st.rec.Now(),
			What: fmt.Sprintf("%d renewals in two thirds of the TTL after the release, %d before it", after, before)})
	}
	return nil
}
