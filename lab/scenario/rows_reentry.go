package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/subject"
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
			ID: "reentrant-counter-kept/ttl-not-moved", Row: "reentrant-counter-kept",
			Hole:   "re-entry does not move the TTL: a holder that enters late works on when another holds",
			Trials: []Trial{{Subject: "reentrant-counter-kept", TTL: 2 * ours, Wait: long}, {Subject: "holdfast", TTL: ours, Wait: kept}},
			Checks: []check.Check{check.Overlap()}, clients: []string{"a", "b"}, play: entersLate,
		},
		{
			ID: "reentrant-counter-kept/counts-for-another", Row: "reentrant-counter-kept",
			Hole: "counter and lock expire apart: a late re-entry counts for the next holder, whose release does not free the lock",
			Why: "Holdfast sends nothing to re-enter. In place of its request the whole client is late: its process is paused before it re-enters " +
				"until b holds.",
			Trials: []Trial{
				{Subject: "reentrant-counter-kept", TTL: ours, Wait: inVain, Faults: "stall a at a:acquire.get#2 until b:held"},
				{Subject: "holdfast", TTL: ours, Wait: long, Faults: "pause a at a:held until b:held"},
			},
			Checks: []check.Check{check.Deadlock(unfreedFor)}, clients: []string{"a", "b", "c"}, play: reentersLate,
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

// reenter acquires the lock again under a lease and records, as a renewal, how long the
// holder now relies on it. It returns nil and no error if the lock was refused.
func (y *lease) reenter(ctx context.Context) (subject.Hold, error) {
	op := history.Op{Kind: history.Renew, Call: y.st.rec.Now(), Outcome: history.Failed}
	h, err := y.st.clients[y.who].Acquire(y.hold.Within(ctx), resource)
	if err == nil {
		op.Outcome, op.Until = history.OK, y.st.since(h.Until())
	}
	y.record(op)
	return h, ctx.Err()
}

// entersLate: a enters again when half of its TTL is over, and works on until b holds,
// which waits all the time.
func entersLate(ctx context.Context, st *scenarioRun) error {
	start := time.Now()
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	return concurrently(
		func() error {
			if err := st.awaitOr(ctx, "nobody", "never", st.trial.TTL/2); err != nil {
				return err
			}
			inner, err := a.reenter(ctx)
			if err != nil {
				return err
			}
			if inner == nil || time.Since(start) > st.trial.TTL {
				return errSlow
			}
			if err := st.awaitOr(ctx, "b", "held", st.trial.Wait); err != nil {
				return err
			}
			if time.Now().After(inner.Until()) {
				return errSlow // it did not work for that long
			}
			_ = inner.Release(ctx) // b may hold now
			return a.release(ctx)
		},
		func() error { return st.use(ctx, "b") })
}

// reentersLate: the re-entry of a is late until b holds; b releases, and c tries.
func reentersLate(ctx context.Context, st *scenarioRun) error {
	start := time.Now()
	inA, cancel := context.WithCancel(ctx)
	return concurrently(
		func() error {
			a, err := st.hold(inA, "a")
			if err != nil {
				return err
			}
			inner, err := a.reenter(inA)
			if err != nil {
				return err
			}
			if inner != nil {
				_ = inner.Release(ctx) // its TTL has ended
			}
			return a.release(ctx)
		},
		func() error {
			defer cancel()
			if err := st.first(ctx); err != nil {
				return err
			}
			if time.Since(start) > st.trial.TTL {
				return errSlow
			}
			b, err := st.hold(ctx, "b")
			if err != nil {
				return err
			}
			if err := errors.Join(st.await(ctx, "a", "released"), b.release(ctx)); err != nil {
				return err
			}
			return st.use(ctx, "c")
		})
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
