package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
)

// kept is how long a client waits for a lock that must not be granted. The old locks grant it
// at once. It is longer than the TTL of a lease that ends, so that a wrong grant at that
// moment, or by the last poll, is in time to be seen.
const kept = 1200 * time.Millisecond

// intruders are locks that two clients hold at once.
func intruders() []Scenario {
	one := []check.Check{check.Overlap()}
	lateReleases := []Trial{
		{Subject: "lua-setnx", TTL: short, Wait: long, Faults: "pause a at a:release.start until b:held"},
		{Subject: "holdfast", TTL: ours, Wait: kept, Faults: "pause a at a:release.start until b:held"},
	}
	return []Scenario{
		{
			ID: "timestamp-del/second-delete", Row: "timestamp-del",
			Hole: "two clients see the stale value; the DEL of the second removes the fresh lock of the first",
			Trials: []Trial{
				{Subject: "timestamp-del", TTL: short, Wait: long, Faults: "stall a at a:acquire.get until b:held\nkill z at z:held"},
				{Subject: "holdfast", TTL: ours, Wait: kept, Faults: "stall a at a:acquire.done until b:held\nkill z at z:held"},
			},
			Checks: one, clients: []string{"z", "a", "b"}, play: bothSeeItStale,
		},
		{
			ID: "timestamp-getset/clocks-differ", Row: "timestamp-getset",
			Hole: "a client whose clock is ahead by more than the timeout takes a held lock",
			Why:  clockWhy,
			Trials: []Trial{
				{Subject: "timestamp-getset", TTL: long, Wait: long, Faults: "step-clock b by 10s at a:held"},
				{Subject: "holdfast", TTL: long, Wait: kept, Faults: "step-clock b by 10s at a:held"},
			},
			Checks: one, clients: []string{"a", "b"}, play: bystander,
		},
		{
			ID: "timestamp-getset/late-release", Row: "timestamp-getset",
			Hole: "the release of a holder that is late frees another's lock",
			Trials: []Trial{
				{Subject: "timestamp-getset", TTL: short, Wait: long, Faults: "pause a at a:release.start until b:held"},
				{Subject: "holdfast", TTL: ours, Wait: kept, Faults: "pause a at a:release.start until b:held"},
			},
			Checks: one, clients: []string{"a", "b", "c"}, play: lateRelease,
		},
		{
			ID: "lua-setnx/late-release", Row: "lua-setnx",
			Hole:   "a holder outlives the TTL, its DEL frees the next holder's lock, and so on down the chain",
			Trials: lateReleases,
			Checks: one, clients: []string{"a", "b", "c"}, play: lateRelease,
		},
		{
			ID: "lua-setnx/chain", Row: "lua-setnx",
			Hole:   "each late DEL frees the lock of the next holder: two pairs of holders hold at once",
			Trials: lateReleases,
			Checks: []check.Check{twice(check.Overlap())}, clients: []string{"a", "b", "c", "d"}, play: chain,
		},
		{
			ID: "set-nx-del/failed-attempt", Row: "set-nx-del",
			Hole: "a failed attempt deletes the holder's lock",
			Trials: []Trial{
				{Subject: "set-nx-del", TTL: long, Wait: long},
				{Subject: "holdfast", TTL: long, Wait: kept},
				{Subject: "holdfast-memory", TTL: long, Wait: kept},
			},
			Checks: one, clients: []string{"a", "b", "c"}, play: failedAttempt,
		},
		{
			ID: "token-get-del/between-get-and-del", Row: "token-get-del",
			Hole: "the lock expires and is taken between GET and DEL",
			Trials: []Trial{
				{Subject: "token-get-del", TTL: short, Wait: long, Faults: "pause a at a:release.get until b:held"},
				{Subject: "holdfast", TTL: ours, Wait: kept, Faults: "pause a at a:release.start until b:held"},
			},
			Checks: one, clients: []string{"a", "b", "c"}, play: lateRelease,
		},
		{
			ID: "token-per-client/delayed-release", Row: "token-per-client",
			Hole: "a delayed release of attempt 1 deletes attempt 2",
			Why: "Only the request is late, and its client goes on meanwhile: a stall. On a quorum it is the withdrawal of a whole attempt, " +
				"which the nodes had granted when its ctx ended.",
			Trials: []Trial{
				{Subject: "token-per-client", TTL: short, Wait: long, Faults: "stall a at a:release.start until a:held#2"},
				{Subject: "holdfast", TTL: ours, Wait: kept, Faults: "stall a at a:release.start until a:held#2"},
				{Subject: "holdfast-quorum", TTL: ours, Wait: kept, Faults: "stall a at a:acquire.done\nstall a at a:release.start until a:held", play: lateWithdrawal},
			},
			Checks: one, clients: []string{"a", "b"}, play: delayedRelease,
		},
	}
}

const clockWhy = "The client runs in a process of its own, in which every read of the wall clock is stepped; the monotonic clock is not. " +
	"Where the lab cannot do that (see process.CanStep), only the locks that read the time from the lab see a step."

// bothSeeItStale: z dies while it holds; a finds the lock stale and is delayed before it
// takes it; b takes it.
func bothSeeItStale(ctx context.Context, st *scenarioRun) error {
	if _, err := st.acquire(ctx, "z"); err != nil {
		return err
	}
	inA, cancel := context.WithCancel(ctx)
	defer cancel()
	return concurrently(
		func() error {
			y, err := st.acquire(inA, "a")
			if err != nil || y == nil {
				return err
			}
			return y.release(ctx)
		},
		func() error {
			defer cancel()
			if err := st.first(ctx); err != nil {
				return err
			}
			y, err := st.hold(ctx, "b")
			if err != nil {
				return err
			}
			if err := st.awaitOr(ctx, "a", "held", st.trial.Wait); err != nil {
				return err
			}
			return y.release(ctx)
		})
}

// bystander: a holds while b tries.
func bystander(ctx context.Context, st *scenarioRun) error {
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	if err := st.use(ctx, "b"); err != nil {
		return err
	}
	return a.release(ctx)
}

// failedAttempt: a holds, b tries once and fails, then c tries.
func failedAttempt(ctx context.Context, st *scenarioRun) error {
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	if b, err := st.try(ctx, "b"); err != nil || b != nil {
		return errors.Join(err, errors.New("b did not fail"))
	}
	if err := st.use(ctx, "c"); err != nil {
		return err
	}
	return a.release(ctx)
}

// lateRelease: the release of a is delayed until b holds; then c tries.
func lateRelease(ctx context.Context, st *scenarioRun) error {
	return st.afterLateRelease(ctx, func(b *lease) error {
		if err := st.use(ctx, "c"); err != nil {
			return err
		}
		return b.release(ctx)
	})
}

// afterLateRelease delays the release of a until b holds, and calls then when it has been executed.
func (st *scenarioRun) afterLateRelease(ctx context.Context, then func(b *lease) error) error {
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	return concurrently(
		func() error { return a.release(ctx) },
		func() error {
			if err := st.first(ctx); err != nil {
				return err
			}
			b, err := st.hold(ctx, "b")
			if err != nil {
				return err
			}
			if err := st.await(ctx, "a", "released"); err != nil {
				return err
			}
			return then(b)
		})
}

// twice finds what a check finds two times at least.
func twice(c check.Check) check.Check {
	return check.Check{Name: c.Name, Find: func(ops []history.Op) []check.Violation {
		if found := c.Find(ops); len(found) > 1 {
			return found
		}
		return nil
	}}
}

// chain: the release of a is delayed until b holds; c tries, b releases, and d tries.
func chain(ctx context.Context, st *scenarioRun) error {
	return st.afterLateRelease(ctx, func(b *lease) error {
		c, err := st.acquireInTime(ctx, "c")
		if err != nil {
			return err
		}
		if err := b.release(ctx); err != nil {
			return err
		}
		if c == nil { // it was refused while b held; now it is its turn
			if c, err = st.hold(ctx, "c"); err != nil {
				return err
			}
		}
		return errors.Join(st.use(ctx, "d"), c.release(ctx))
	})
}

// releaseTimeout is how long a waits for the reply to its release.
const releaseTimeout = 180 * time.Millisecond

// delayedRelease: the release of a's first lease is executed while a has a second
// lease; then b tries.
func delayedRelease(ctx context.Context, st *scenarioRun) error {
	first, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	return concurrently(
		func() error { return within(ctx, releaseTimeout, first.release) },
		func() error {
			if err := st.first(ctx); err != nil {
				return err
			}
			second, err := st.hold(ctx, "a")
			if err != nil {
				return err
			}
			if err := st.await(ctx, "a", "released"); err != nil {
				return err
			}
			if err := st.use(ctx, "b"); err != nil {
				return err
			}
			return second.release(ctx)
		})
}

// lateWithdrawal: the ctx of an attempt of a ends when it was granted and a does not know it
// yet. The withdrawal is delayed until its TTL has ended it and the next attempt has
// succeeded; then it is executed, and b tries.
func lateWithdrawal(ctx context.Context, st *scenarioRun) error {
	unheard, cancel := context.WithCancel(ctx)
	err := concurrently(
		func() error {
			y, err := st.acquire(unheard, "a")
			if err == nil && y != nil {
				err = errors.New("a was answered")
			}
			return err
		},
		func() error {
			defer cancel()
			return st.first(ctx)
		})
	if err != nil {
		return err
	}
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	if err := st.await(ctx, "a", "release.done"); err != nil {
		return err
	}
	if st.inj.Await(unheard, fault.When{Who: "a", Point: "release.start", Nth: 2}) == nil {
		return errSlow // it was sent again before a held
	}
	return errors.Join(st.use(ctx, "b"), a.release(ctx))
}
