package virtual

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/model"
	"github.com/holdfast-go/holdfast/lab/pausepoint"
)

// Result is the result of a program.
type Result struct {
	Program    Program           `json:"program"`
	Violations []check.Violation `json:"violations,omitempty"`
	History    []history.Op      `json:"history,omitempty"`
	// Took is the virtual time that passed.
	Took     time.Duration `json:"took"`
	Lingered Lingered      `json:"lingered"`
	// Shared is the number of readers that joined the lease of another.
	Shared int `json:"shared"`
	// Stopped counts the pauses at points of the client, by point.
	Stopped map[string]int `json:"stopped,omitempty"`
	// Hit counts what the faults did, by fault.
	Hit map[Action]int `json:"hit,omitempty"`
}

// Play runs a program in its own bubble and checks its history. A remaining goroutine, or a
// deadlock inside the client, is a violation named "bubble".
func Play(t *testing.T, p Program) Result { return PlayObserved(t, p, nil) }

// Observer returns an engine in place of the one that a store runs. It is called for each store in memory, and
// again when a store has lost its data.
type Observer func(*memory.Engine) engine.Engine

// PlayObserved is Play with an observer of the stores of the worlds Memory and Quorum, or nil.
func PlayObserved(t *testing.T, p Program, observe Observer) (r Result) {
	r.Program = p
	defer func() {
		// synctest panics if the goroutines of the bubble are deadlocked.
		if what := recover(); what != nil {
			r.Violations = append(r.Violations, check.Violation{Check: "bubble", Text: fmt.Sprint(what)})
		}
	}()
	if n := p.missing(pausepoint.Names()); n != "" {
		r.Violations = []check.Violation{{Check: "setup", Text: "this build has no point " + n}}
		return r
	}
	synctest.Test(t, func(*testing.T) {
		w, err := newSimulation(p, observe)
		if err != nil {
			r.Violations = []check.Violation{{Check: "setup", Text: err.Error()}}
			return
		}
		end := w.run()
		r.History, r.Took = append(w.rec.Ops(), w.breakOps(w.forced)...), w.rec.Now()
		r.Violations, r.Lingered = w.judge(r.History, end), w.lingers.counted()
		r.Stopped, r.Hit = w.stopped.at, w.incidents.hit
		for _, joined := range shares(r.History) {
			r.Shared += len(joined) - 1
		}
	})
	return r
}

// Bounds of the checks of progress.
const (
	// freeFor is how long a resource may have no holder in the history although a caller
	// waits for it, right after the faults: the claim window of a dead waiter (3 s), a
	// clean-up, a poll, and clocks of different rates. The TTL of a lease whose process
	// died comes on top.
	freeFor = 8 * time.Second
	// handedOff is how long a hand-off may take without faults.
	handedOff = 50 * time.Millisecond
	// sameTime is how far apart two requests must be for their order to be known.
	sameTime = time.Microsecond
)

// judge applies the checks whose promises hold under the faults. A lease that an operator
// or a wipe ended is marked as such in the history.
func (w *simulation) judge(ops []history.Op, end runEnd) []check.Violation {
	checks := []check.Check{
		check.Overlap(), check.Inside(), check.Notified(0), check.Tokens(), check.Stale(),
		check.Updates(), check.Sold(), check.Whole(), model.Lock(0),
	}
	if !w.has(Jump) { // a clock that is set back prolongs leases
		checks = append(checks, check.Ended(longestTTL))
	}
	if !w.wiped { // a wipe deletes marks
		checks = append(checks, check.Slots())
	}
	bound := handedOff
	if w.p.World == Quorum { // waiters retry, without wake-ups from a queue
		bound = time.Second
	}
	checks = append(checks, check.HandOff(end.settled, bound, func(string, time.Duration, time.Duration) bool { return true })) // no request is on its way for long
	// A break is reported by a wake-up, or at the next renewal. Without renewal it may
	// come before the stream of wake-ups is live, which takes no time in memory.
	if w.only(Round, Restart, Break, Mute) && !w.uses(NoRenewal) || w.only(Round, Restart, Break) && w.p.World == Memory {
		checks = append(checks, check.Check{Name: "end-seen", Find: func(ops []history.Op) []check.Violation {
			return check.EndSeen(w.renewedWithin).Find(append(slices.Clone(ops), w.breakOps(w.breakRequests)...))
		}})
	}
	found := append(check.Run(ops, checks...), w.violations...)
	found = append(found, check.Deadlock(w.freeFor()).Find(from(ops, end.healed))...)
	found = append(found, w.lingerings(ops)...)
	found = append(found, w.kept(ops)...)
	found = append(found, w.incidents.unexplained(w.p.World.leaves(), w.p.World.attempt())...)
	found = append(found, w.shortTurns()...)
	found = append(found, w.sharings(ops)...)
	return append(found, check.Starvation(0, func(_ string, a, b time.Duration) bool { return b-a > sameTime }).Find(w.strict(ops))...)
}

// from shortens all waits that began before an instant: they begin at that instant.
func from(ops []history.Op, healed time.Duration) []history.Op {
	ops = slices.Clone(ops)
	for i, op := range ops {
		if op.Kind == history.Acquire && op.Call < healed {
			ops[i].Call = min(healed, op.Return)
		}
	}
	return ops
}

// strict returns the operations on resources that are served strictly first come, first
// served: in a program without faults, without tries, without tenure and without readers that share leases.
func (w *simulation) strict(ops []history.Op) []history.Op {
	if !w.only(Round, Restart) || w.p.World == Quorum {
		return nil
	}
	loose := map[string]bool{}
	for _, s := range w.p.Steps {
		ordered := s.Lock == Readers && !s.shares() || s.Lock == Semaphore || s.Lock == Election || s.Way == NoTenure || s.Way == NoRenewal
		loose[s.Name] = loose[s.Name] || !ordered || s.Way == Try
	}
	return slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return loose[op.Resource] })
}

func (w *simulation) freeFor() time.Duration {
	d := freeFor
	if w.has(Crash) || w.has(Visits) || w.unreleased.Load() {
		d += longestTTL
	}
	if w.has(Jump) { // a clock that is set back prolongs leases
		d += longestJump
	}
	return d
}

// renewedWithin returns the longest time until the next renewal of a lease.
func (w *simulation) renewedWithin(holder string) time.Duration {
	return w.steps[holder].TTL*36/100 + handedOff
}

func (w *simulation) has(a Action) bool {
	return slices.ContainsFunc(w.p.Steps, func(s Step) bool { return s.Do == a })
}

// only reports whether the program has no other actions than these.
func (w *simulation) only(does ...Action) bool {
	return !slices.ContainsFunc(w.p.Steps, func(s Step) bool { return !slices.Contains(does, s.Do) })
}

func (w *simulation) uses(way Way) bool {
	return slices.ContainsFunc(w.p.Steps, func(s Step) bool { return s.Do == Round && s.Way == way })
}
