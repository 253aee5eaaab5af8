package scenario

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lab/check"
)

// dataLosses are locks on servers that lose data.
func dataLosses() []Scenario {
	return []Scenario{
		{
			ID: "incr-fence/all-data-lost", Row: "incr-fence",
			Hole: "after a restart without data the same token is given again",
			Trials: []Trial{
				{Subject: "incr-fence", TTL: long, Faults: "restart-empty node1 at a:read"},
				{Subject: "holdfast", TTL: long, Faults: "restart-empty node1 at a:read"},
			},
			Checks: fenced(), clients: []string{"a", "b"}, warm: true, play: forgotten,
		},
		{
			ID: "incr-fence/replica-behind", Row: "incr-fence",
			Hole: "the master dies before its replica had the counter: the same token is given again",
			Trials: []Trial{
				{Subject: "incr-fence", TTL: long, Faults: "failover node1 at a:read\ncut replica-node1 at start"},
				{Subject: "holdfast", TTL: long, Faults: "failover node1 at a:read\ncut replica-node1 at start"},
			},
			Checks: fenced(), clients: []string{"a", "b"}, warm: true, play: forgotten,
		},
		{
			ID: "token-lua-failover/replica-behind", Row: "token-lua-failover",
			Hole: "the master dies before its replica had the key: both hold",
			Why: "In a failover to a replica that is behind, Holdfast promises no exclusion, but the fence refuses the older holder. " +
				"So the run is judged on the protected side. The next scenario shows exclusion on a quorum.",
			Trials: []Trial{
				{Subject: "token-lua-failover", TTL: long, Faults: "failover node1 at a:checked\ncut replica-node1 at start\nstall a at a:checked until b:wrote"},
				{Subject: "holdfast", TTL: long, Faults: "failover node1 at a:checked\ncut replica-node1 at start\nstall a at a:checked until b:wrote"},
			},
			Checks: fenced(), clients: []string{"a", "b"}, warm: true, play: pausedWriter,
		},
		{
			ID: "token-lua-failover/master-dies", Row: "token-lua-failover",
			Hole: "the master dies before its replica had the key: both hold",
			Why:  "The counterpart of a master is one node of a quorum.",
			Trials: []Trial{
				{Subject: "token-lua-failover", TTL: long, Wait: long, Faults: "failover node1 at a:held\ncut replica-node1 at start"},
				{Subject: "holdfast-quorum", TTL: long, Wait: kept, Faults: "kill node1 at a:held"},
			},
			Checks: []check.Check{check.Overlap()}, clients: []string{"a", "b"}, warm: true, play: bystander,
		},
	}
}

// forgotten: the server loses all its data, or the last of it, while a holds; b acquires, adds one and
// releases; then a writes.
func forgotten(ctx context.Context, st *scenarioRun) error {
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	n, err := a.read(ctx)
	if err != nil {
		return err
	}
	if err := st.turn(ctx, "b"); err != nil {
		return err
	}
	return errors.Join(a.write(ctx, n+1), a.release(ctx))
}
