package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
)

// majorities are the locks on several nodes.
func majorities() []Scenario {
	one := []check.Check{check.Overlap()}
	const slow = "deafen a-node2 at %s until b:held\ndeafen a-node3 at %s until b:held"
	return []Scenario{
		{
			ID: "redlock-unchecked/slow-nodes", Row: "redlock-unchecked",
			Hole: "the majority is complete after the first keys expired: both hold",
			Trials: []Trial{
				{Subject: "redlock-unchecked", TTL: short, Wait: long, Faults: at(slow, "a:acquire.node1")},
				{Subject: "holdfast-quorum", TTL: ours, Wait: kept, Faults: at(slow, "a:acquire.start")},
			},
			Checks: one, clients: []string{"a", "b"}, warm: true, play: slowMajority,
		},
		{
			ID: "redlock/clock-steps", Row: "redlock",
			Hole: "the client is paused before it checks the time that the majority took, and its clock steps back: it takes a majority that has expired for a valid one",
			Why:  clockWhy,
			Trials: []Trial{
				{Subject: "redlock", TTL: short, Wait: long, Faults: "step-clock a by -10s at a:acquire.node3\npause a at a:acquire.node3 until b:held"},
				{Subject: "holdfast-quorum", TTL: ours, Wait: kept, Faults: "step-clock a by -10s at a:acquire.done\npause a at a:acquire.done until b:held"},
			},
			Checks: one, clients: []string{"a", "b"}, warm: true, play: slowMajority,
		},
		{
			ID: "redlock/node-restarts-empty", Row: "redlock",
			Hole: "a node that restarts without its data votes twice: both hold, both write, an update is lost",
			Why: "A node of Holdfast's quorum that restarts empty votes twice as well, as documented. So the run is judged on the " +
				"protected side, where the fence refuses the older of the two.",
			Trials: []Trial{
				{Subject: "redlock", TTL: long, Faults: "stall a at a:checked until b:wrote\nrestart-empty node2 at a:checked\ncut a-node3 at start"},
				{Subject: "holdfast-quorum", TTL: long, Faults: "stall a at a:checked until b:wrote\nrestart-empty node2 at a:checked\ncut a-node3 at start"},
			},
			Checks: fenced(), clients: []string{"a", "b"}, warm: true, play: pausedWriter,
		},
		{
			ID: "redlock-extend-recreates/held-in-between", Row: "redlock-extend-recreates",
			Hole: "the extension sets a missing key again: another had held and released in between, and no holder is notified",
			Trials: []Trial{
				{Subject: "redlock-extend-recreates", TTL: 500 * time.Millisecond, Faults: "pause a at a:held until b:released"},
				{Subject: "holdfast-quorum", TTL: ours, Faults: "pause a at a:held until b:released"},
			},
			Checks: one, clients: []string{"a", "b"}, play: heldInBetween,
		},
		{
			ID: "redlock-value-reused/late-clean-up", Row: "redlock-value-reused",
			Hole: "the late clean-up of try 1 deletes the key of try 2, which has the same value",
			Why: "Only the request of the clean-up is late, and its client goes on meanwhile: a stall. A ballot of Holdfast calls as many nodes as it needs; " +
				"a is cut off from node 2, so that each of its ballots needs node 1, where the clean-up is late.",
			Trials: []Trial{
				{Subject: "redlock-value-reused", TTL: long, Wait: long, Faults: "cut c-node1 at start\nstall a at a:cleanup.node2 until a:held"},
				{Subject: "holdfast-quorum", TTL: ours, Wait: kept, Faults: "cut c-node1 at start\nstall a at a:node1.release.start until a:held\ncut a-node2 at start"},
			},
			Checks: one, clients: []string{"a", "b", "c"}, warm: true, play: lateCleanUp,
		},
	}
}

// slowMajority: replies to a are slow; the replies to b are not, and b acquires when the
// first keys of a have expired.
func slowMajority(ctx context.Context, st *scenarioRun) error {
	inA, cancel := context.WithCancel(ctx)
	defer cancel()
	return concurrently(
		func() error {
			a, err := st.acquire(inA, "a")
			if err != nil || a == nil {
				return err
			}
			return errors.Join(st.await(ctx, "b", "released"), a.release(ctx))
		},
		func() error {
			defer cancel()
			if err := errors.Join(st.first(ctx), st.reached(ctx, 2)); err != nil { // only the reply is late
				return err
			}
			b, err := st.hold(ctx, "b")
			if err != nil {
				return err
			}
			return errors.Join(st.awaitOr(ctx, "a", "held", st.trial.Wait), b.release(ctx))
		})
}

// heldInBetween: a is paused for longer than its TTL, b acquires and releases, a extends.
func heldInBetween(ctx context.Context, st *scenarioRun) error {
	return concurrently(
		func() error {
			a, err := st.hold(ctx, "a")
			if err != nil {
				return err
			}
			return errors.Join(a.renew(ctx), a.release(ctx))
		},
		func() error {
			if err := st.first(ctx); err != nil {
				return err
			}
			b, err := st.hold(ctx, "b")
			if err != nil {
				return err
			}
			return b.release(ctx)
		})
}

// lateCleanUp: c holds a majority, so the first try of a fails, and its clean-up is
// delayed on one node; c releases and the next try of a succeeds; then the clean-up is
// executed, and b tries.
func lateCleanUp(ctx context.Context, st *scenarioRun) error {
	c, err := st.hold(ctx, "c")
	if err != nil {
		return err
	}
	late := st.faults[1].At
	return concurrently(
		func() error {
			a, err := st.hold(ctx, "a")
			if err != nil {
				return err
			}
			if err := st.use(ctx, "b"); err != nil {
				return err
			}
			return a.release(ctx)
		},
		func() error {
			if err := st.inj.Await(ctx, late); err != nil {
				return err
			}
			return c.release(ctx)
		})
}
