package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
)

// fenced are the checks of the protected side.
func fenced() []check.Check { return []check.Check{check.Updates(), check.Stale(), check.Tokens()} }

// stales are locks that exclude others while their holder runs, but do not stop it from
// writing after its TTL.
func stales() []Scenario {
	const paused = "pause a at a:checked until b:wrote"
	ourPauses := []Trial{{Subject: "holdfast", TTL: ours, Faults: paused}, {Subject: "holdfast-quorum", TTL: ours, Faults: paused}}
	return []Scenario{
		{
			ID: "token-watch/paused", Row: "token-watch",
			Hole:   "right while alive, for 4 round trips; a holder that is paused after its last look writes after its TTL",
			Trials: append([]Trial{{Subject: "token-watch", TTL: short, Faults: paused}}, ourPauses...),
			Checks: fenced(), clients: []string{"a", "b"}, play: pausedWriter,
		},
		{
			ID: "token-lua/paused", Row: "token-lua",
			Hole:   "right while alive; a holder that is paused after its last look writes after its TTL",
			Trials: append([]Trial{{Subject: "token-lua", TTL: short, Faults: paused}}, ourPauses...),
			Checks: fenced(), clients: []string{"a", "b"}, play: pausedWriter,
		},
		{
			ID: "token-lua/cut-off", Row: "token-lua",
			Hole: "a holder that is cut off from the lock's Redis is not notified that its time is over, and writes",
			Trials: []Trial{
				{Subject: "token-lua", TTL: short, Faults: "blackhole a-node1 at a:held until b:wrote"},
				{Subject: "holdfast", TTL: ours, Faults: "blackhole a-node1 at a:held until b:wrote"},
			},
			Checks: append(fenced(), check.Overlap()), clients: []string{"a", "b"}, warm: true, play: cutOffWriter,
		},
		{
			ID: "redlock/paused", Row: "redlock",
			Hole:   "a holder that is paused after the check of its validity writes after its TTL",
			Trials: []Trial{{Subject: "redlock", TTL: short, Faults: paused}, {Subject: "holdfast-quorum", TTL: ours, Faults: paused}},
			Checks: fenced(), clients: []string{"a", "b"}, play: pausedWriter,
		},
		{
			ID: "write-only-fence/both-read-first", Row: "write-only-fence",
			Hole: "two holders read, then both write in the order of their tokens: an update is lost, no token was stale",
			Trials: []Trial{
				{Subject: "write-only-fence", TTL: short, Faults: "pause a at a:checked until b:read"},
				{Subject: "holdfast", TTL: ours, Faults: "pause a at a:checked until b:read"},
			},
			Checks: fenced(), clients: []string{"a", "b"}, play: bothReadFirst,
		},
	}
}

// pausedWriter: a is paused between its last check and its write; meanwhile b acquires,
// adds one and releases.
func pausedWriter(ctx context.Context, st *scenarioRun) error {
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	return concurrently(
		func() error { return errors.Join(a.add(ctx), a.release(ctx)) },
		func() error { return errors.Join(st.first(ctx), st.turn(ctx, "b")) })
}

// errSlow is the error of a run on a machine that was too slow for it, such as one in which the
// lease of a ended before the first fault. The run shows nothing and is repeated.
var errSlow = errors.New("the machine was too slow for the run")

// first waits until the first fault begins.
func (st *scenarioRun) first(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	came := make(chan error, 3)
	go func() { came <- st.inj.Await(ctx, st.faults[0].At) }()
	for _, end := range []string{"lost", "released"} {
		go func() {
			if err := st.await(ctx, "a", end); err != nil {
				came <- err
				return
			}
			came <- errSlow
		}()
	}
	return <-came
}

// turn acquires the lock, adds one and releases it.
func (st *scenarioRun) turn(ctx context.Context, who string) error {
	y, err := st.hold(ctx, who)
	if err != nil {
		return err
	}
	return errors.Join(y.add(ctx), y.release(ctx))
}

// cutOffWriter: a reads and is cut off; b acquires, adds one and releases; then a writes
// unless it was notified.
func cutOffWriter(ctx context.Context, st *scenarioRun) error {
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	n, err := a.read(ctx)
	if err != nil {
		return err
	}
	return concurrently(
		func() error {
			if err := st.await(ctx, "b", "wrote"); err != nil {
				return err
			}
			if a.sure() {
				if err := a.write(ctx, n+1); err != nil {
					return err
				}
			}
			return within(ctx, time.Second, a.release)
		},
		func() error { return st.turn(ctx, "b") })
}

// bothReadFirst: a and b have both read before either writes; a writes first.
func bothReadFirst(ctx context.Context, st *scenarioRun) error {
	a, err := st.hold(ctx, "a")
	if err != nil {
		return err
	}
	aDone := make(chan struct{})
	return concurrently(
		func() error {
			defer close(aDone)
			return errors.Join(a.add(ctx), a.release(ctx))
		},
		func() error {
			if err := st.first(ctx); err != nil {
				return err
			}
			b, err := st.hold(ctx, "b")
			if err != nil {
				return err
			}
			n, err := b.read(ctx)
			if err != nil {
				return err
			}
			select {
			case <-aDone:
			case <-ctx.Done():
			}
			return errors.Join(b.write(ctx, n+1), b.release(ctx))
		})
}
