package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
)

// TTLs of the trials. Old locks have short ones, since most holes show when a TTL
// ends; Holdfast's is three times the least that it accepts.
const (
	short = 80 * time.Millisecond
	ours  = 300 * time.Millisecond
	long  = 3 * time.Second // longer than any wait
)

// Bounds that also a slow machine keeps.
const (
	unfreedFor = 700 * time.Millisecond // the lock is free for longer than this while a client waits
	inVain     = time.Second            // how long a client waits for a subject that is known not to grant
)

// unfreed are locks that no client can acquire although no client holds them.
func unfreed() []Scenario {
	return []Scenario{
		{
			ID: "setnx-expire/dies-between", Row: "setnx-expire",
			Hole: "a client dies between SETNX and EXPIRE: the resource is locked for ever",
			Trials: []Trial{
				{Subject: "setnx-expire", TTL: short, Faults: "kill a at a:acquire.setnx", Wait: 2 * time.Second},
				{Subject: "holdfast", TTL: ours, Faults: "kill a at a:acquire.done", Wait: long},
				{Subject: "holdfast-quorum", TTL: ours, Faults: "kill a at a:acquire.done", Wait: long},
			},
			// More than the TTL of the dead client and one poll, in case a wake-up is late.
			Checks:  []check.Check{check.Deadlock(1700 * time.Millisecond)},
			clients: []string{"a", "b"}, play: diesInAcquire,
		},
		{
			ID: "timestamp-getset/loser-moves-deadline", Row: "timestamp-getset",
			Hole: "the GETSET of a loser moves the deadline of the winner, who dies: the lock is stuck for the loser's timeout",
			Why: "Holdfast has no attempt that loses between two commands; in its place b asks while a holds, and is refused or queued, " +
				"which must not move the end of the lease of a.",
			Trials: []Trial{
				{Subject: "timestamp-getset", TTL: short, Wait: 2800 * time.Millisecond,
					Faults: "stall b at b:acquire.get until a:held\nkill a at b:acquire.getset\nkill z at z:held"},
				{Subject: "holdfast", TTL: ours, Wait: long, Faults: "kill a at b:acquire.done\nkill z at z:held"},
			},
			Checks:  []check.Check{check.Deadlock(1700 * time.Millisecond)},
			clients: []string{"z", "a", "b"}, play: loserMovesDeadline,
		},
		{
			ID: "token-lua-misquoted/never-released", Row: "token-lua-misquoted",
			Hole: "the release deletes the key named KEYS[1]: each lock waits out its TTL",
			Trials: []Trial{
				{Subject: "token-lua-misquoted", TTL: long, Wait: inVain},
				{Subject: "holdfast", TTL: long, Wait: long},
				{Subject: "holdfast-memory", TTL: long, Wait: long},
			},
			Checks:  []check.Check{check.Deadlock(unfreedFor)},
			clients: []string{"a", "b"}, warm: true, play: usesAndFrees,
		},
		{
			ID: "retry-on-error/locks-itself-out", Row: "retry-on-error",
			Hole: "the SET was done and its reply lost; sent again it is refused: the client waits for itself for the TTL",
			Trials: []Trial{
				{Subject: "retry-on-error", TTL: long, Faults: "lose-reply a-node1 match stock at a:acquire.start", Wait: inVain},
				{Subject: "holdfast", TTL: long, Faults: "lose-reply a-node1 match stock at a:acquire.start", Wait: long},
			},
			Checks:  []check.Check{check.Deadlock(unfreedFor)},
			clients: []string{"a"}, warm: true, play: func(ctx context.Context, st *scenarioRun) error { return st.use(ctx, "a") },
		},
	}
}

// loserMovesDeadline: z dies while it holds; a acquires what z left, and b loses, and waits
// after the death of a.
func loserMovesDeadline(ctx context.Context, st *scenarioRun) error {
	if _, err := st.acquire(ctx, "z"); err != nil {
		return err
	}
	won := make(chan struct{})
	return concurrently(
		func() error {
			defer close(won)
			if st.faults[0].Target == "b" { // the stall of the loser
				if err := st.inj.Await(ctx, st.faults[0].At); err != nil {
					return err
				}
			}
			_, err := st.hold(ctx, "a")
			return err
		},
		func() error {
			if st.faults[0].Target != "b" { // b asks when a holds
				<-won
			}
			_, err := st.acquireInTime(ctx, "b")
			return err
		})
}

// diesInAcquire: a is killed while it acquires, then b tries.
func diesInAcquire(ctx context.Context, st *scenarioRun) error {
	a, err := st.acquire(ctx, "a")
	if err != nil || a != nil {
		return errors.Join(err, errors.New("a lives"))
	}
	return st.use(ctx, "b")
}

// usesAndFrees: a acquires and releases the lock, then b tries.
func usesAndFrees(ctx context.Context, st *scenarioRun) error {
	if err := st.use(ctx, "a"); err != nil {
		return err
	}
	return st.use(ctx, "b")
}

// use acquires the lock and releases it; it waits for the Wait of the trial at most.
func (st *scenarioRun) use(ctx context.Context, who string) error {
	y, err := st.acquireInTime(ctx, who)
	if err != nil || y == nil {
		return err
	}
	return y.release(ctx)
}

// acquireInTime waits for the lock for the Wait of the trial at most.
func (st *scenarioRun) acquireInTime(ctx context.Context, who string) (*lease, error) {
	return st.acquireWithin(ctx, who, st.trial.Wait)
}

func (st *scenarioRun) acquireWithin(ctx context.Context, who string, d time.Duration) (y *lease, err error) {
	err = within(ctx, d, func(ctx context.Context) error {
		y, err = st.acquire(ctx, who)
		return err
	})
	return y, err
}
