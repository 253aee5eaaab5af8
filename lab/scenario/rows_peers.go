package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// peers are holes of present versions of other Go libraries. The lab has no points inside
// their code, so faults are of the network, of servers and of processes.
func peers() []Scenario {
	const (
		paused = "pause a at a:checked until b:wrote"
		cutOff = "blackhole a-node1 at a:held until b:wrote"
		silent = "deafen a-node1 at %s until a:gave-up"
	)
	allPaused := func(peer string, nodes Trial) []Trial {
		return []Trial{{Subject: peer, TTL: ours, Faults: paused}, nodes}
	}
	one := Trial{Subject: "holdfast", TTL: ours, Faults: paused}
	three := Trial{Subject: "holdfast-quorum", TTL: ours, Faults: paused}
	return []Scenario{
		{
			ID: "redsync/paused", Row: "redsync",
			Hole:   "no fencing: a holder that is paused after its last look writes after its TTL",
			Trials: allPaused("redsync", three), Checks: fenced(), clients: []string{"a", "b"}, play: pausedWriter,
		},
		{
			ID: "redislock/paused", Row: "redislock",
			Hole:   "no fencing: a holder that is paused after its last look writes after its TTL",
			Trials: allPaused("redislock", one), Checks: fenced(), clients: []string{"a", "b"}, play: pausedWriter,
		},
		{
			ID: "rueidislock/paused", Row: "rueidislock",
			Hole:   "no fencing: a holder that is paused after its last look writes after its TTL",
			Trials: allPaused("rueidislock", one), Checks: fenced(), clients: []string{"a", "b"}, play: pausedWriter,
		},
		{
			ID: "redsync/extend-recreates", Row: "redsync",
			Hole: "with WithSetNXOnExtend an extension sets a missing key again: another had held and released in between",
			Trials: []Trial{
				{Subject: "redsync", TTL: ours, Faults: "pause a at a:held until b:released"},
				{Subject: "holdfast-quorum", TTL: ours, Faults: "pause a at a:held until b:released"},
			},
			Checks: []check.Check{check.Overlap()}, clients: []string{"a", "b"}, play: heldInBetween,
		},
		{
			ID: "redsync/hung-node", Row: "redsync",
			Hole: "one hung node of three makes each lock wait for the read timeout, 3 s with the defaults of go-redis",
			Why: "The connections do not observe the end of a ctx and wait for a reply until their read timeout, which is the default of " +
				"go-redis; to save time it is 1 s here instead of 3 s, and nothing is sent again.",
			Trials: []Trial{
				{Subject: "redsync", TTL: 10 * long, Wait: 2 * long, Faults: "pause node3 at start"},
				{Subject: "holdfast-quorum", TTL: 10 * long, Wait: 2 * long, Faults: "pause node3 at start"},
			},
			Checks: []check.Check{check.Deadlock(unfreedFor)}, clients: []string{"a"}, ignoresContext: true, play: func(ctx context.Context, st *scenarioRun) error { return st.use(ctx, "a") },
		},
		{
			ID: "redislock/gave-up", Row: "redislock",
			Hole: "a ctx that ends in the middle of an acquire leaves the key for the whole TTL",
			Trials: []Trial{
				{Subject: "redislock", TTL: long, Wait: inVain, Faults: at(silent, "start")},
				{Subject: "holdfast", TTL: long, Wait: long, Faults: at(silent, "a:acquire.start")},
			},
			Checks: []check.Check{check.Deadlock(unfreedFor)}, clients: []string{"a", "b"}, warm: true, play: ctxEndsInMidAcquire,
		},
		{
			ID: "rueidislock/late-notice", Row: "rueidislock",
			Hole: "a holder that is cut off waits for its renewal until half a TTL after another was granted",
			Trials: []Trial{
				{Subject: "rueidislock", TTL: time.Second, Faults: cutOff},
				{Subject: "holdfast", TTL: ours, Faults: cutOff},
			},
			Checks: []check.Check{check.Overlap()}, clients: []string{"a", "b"}, warm: true, play: cutOffWriter,
		},
		{
			ID: "rueidislock/clock-behind", Row: "rueidislock",
			Hole: "keys expire at an instant of the client's clock: the keys of a client that is behind by more than the TTL expire at once",
			Why:  clockWhy,
			Trials: []Trial{
				{Subject: "rueidislock", TTL: long, Wait: long, Faults: "step-clock a by -10s at start"},
				{Subject: "holdfast", TTL: long, Wait: kept, Faults: "step-clock a by -10s at start"},
			},
			Checks: []check.Check{check.Overlap(), lasts()}, clients: []string{"a", "b"}, play: bystander,
		},
	}
}

// lasts: an acquired lock is not lost before its TTL. The library may be notified of the
// loss of its keys before or after another client has taken them; both show the hole.
func lasts() check.Check {
	return check.Check{Name: "lost at once", Find: func(ops []history.Op) []check.Violation {
		var out []check.Violation
		for _, op := range ops {
			if op.Kind == history.Lost && op.Call < long {
				out = append(out, check.Violation{Check: "lost at once", Resource: op.Resource, At: op.Call,
					Text: fmt.Sprintf("%s lost what it had for %v", op.Client, long)})
			}
		}
		return out
	}}
}

// brief is the wait of a client whose replies are late: its ctx ends in the middle of the call.
const brief = 60 * time.Millisecond

// ctxEndsInMidAcquire: a gets no reply before its ctx ends, and returns; then b tries.
func ctxEndsInMidAcquire(ctx context.Context, st *scenarioRun) error {
	y, err := st.acquireWithin(ctx, "a", brief)
	if err != nil || y != nil {
		return errors.Join(err, errors.New("a was answered"))
	}
	if err := st.inj.Point(ctx, "a", "gave-up"); err != nil {
		return err
	}
	return st.use(ctx, "b")
}
