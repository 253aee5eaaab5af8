package scenario

import (
	"context"
	"fmt"
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
			Trials: []Trial{{Subject: "reentrant-counter", TTL: long, Wait: inVain}, {Subject: "holdfast", TTL: long, Wait: long}, {Subject: "holdfast-memory", TTL: long, Wait: long}},
			Checks: []check.Check{reentry()}, clients: []string{"a"}, play: locksAgain,
		},
		{
			ID: "reentrant-hash/counted-twice", Row: "reentrant-hash",
			Hole: "an acquire that is sent again after a lost reply counts twice: one release does not free it, and the timers keep it alive",
			Trials: []Trial{
				{Subject: "reentrant-hash", TTL: unfreedFor - 60*time.Millisecond, Wait: inVain, Faults: resent},
				{Subject: "holdfast", TTL: ours, Wait: long, Faults: resent},
			},
			Checks: []check.Check{check.Deadlock(unfreedFor)}, clients: []string{"a", "b"}, warm: true, play: usesAndFrees,
		},
		{
			ID: "reentrant-hash/timers", Row: "reentrant-hash",
			Hole:   "the timers that renew double each third of the TTL and outlive the unlock",
			Trials: []Trial{{Subject: "reentrant-hash", TTL: short}, {Subject: "holdfast", TTL: ours}},
			Checks: []check.Check{stopsRenewing()}, clients: []string{"a"}, play: keepsRenewing,
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

// renewing is the Note of the start of a renewal.
const renewing = "renewing"

// stopsRenewing: a holder renews while it holds, and not after its release; one renewal may be
// under way by then.
func stopsRenewing() check.Check {
	const name = "timers"
	return check.Check{Name: name, Find: func(ops []history.Op) []check.Violation {
		released, before, after := time.Duration(-1), 0, 0
		for _, op := range ops {
			switch {
			case op.Kind == history.Release:
				released = op.Return
			case op.Note == renewing && released < 0:
				before++
			case op.Note == renewing && op.Call > released:
				after++
			}
		}
		if before > 0 && released >= 0 && after <= 1 {
			return nil
		}
		return []check.Violation{{Check: name, Resource: resource, At: released,
			Text: fmt.Sprintf("%d renewals in two thirds of the TTL after the release, %d before it", after, before)}}
	}}
}

// keepsRenewing: a holds for some renewals and releases, and time passes.
func keepsRenewing(ctx context.Context, st *scenarioRun) error {
	st.onStep = func(who, step string) {
		if step == "renew.start" {
			now := st.rec.Now()
			st.rec.Add(history.Op{Client: who, Kind: history.Renew, Resource: resource, Call: now, Return: now, Outcome: history.Unknown, Note: renewing})
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
	return st.awaitOr(ctx, "nobody", "never", st.trial.TTL*2/3+10*time.Millisecond)
}
