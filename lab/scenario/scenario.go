// Package scenario breaks each classic lock on demand: one scenario for each hole
// of the table in README.md. A scenario is a short play with faults at named
// points, so that the hole shows in every run and not by luck. The same play,
// with the same faults at the corresponding points, is then run on Holdfast.
//
// A run is judged by package check from its recorded history alone. A fault that
// was never hit is an error of the scenario, not a pass.
//
// # Processes, connections and calls
//
// Where a client is killed or paused it runs in a process of its own, which gets
// SIGKILL or SIGSTOP: what runs in the background of a client, such as a
// keepalive, must stop with it. Where a request is late, or a server slow, all
// that stands still is that request (stall) or that connection (delay, deafen,
// blackhole, cut, in a proxy), and the client lives in the lab's own process.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Scenario shows one hole.
type Scenario struct {
	// ID is the row and, after a slash, the hole.
	ID string
	// Row is the subject that has the hole.
	Row string
	// Hole is what goes wrong, in a sentence.
	Hole string
	// Why is why the clients run where they run, and what stands for what; empty if the
	// package comment is enough.
	Why string
	// Casts are the subjects that play it, the row first.
	Casts []Cast
	// Checks are the promises that are judged.
	Checks []check.Check

	// clients are opened before the faults begin, and if warm is set they have
	// used every server once.
	clients        []string
	warm           bool
	ignoresContext bool // connections are deaf to the end of a ctx, as go-redis makes them by default
	play           func(ctx context.Context, st *scenarioRun) error
}

// Cast is a subject in a scenario, with the faults at its own points.
type Cast struct {
	Subject string
	TTL     time.Duration // of those whose time runs out: clients a and z
	Faults  string        // a fault.Schedule
	// Wait is how long clients wait that may be kept out. Where a subject is known to
	// let them in it is long, so that a slow machine hides no hole; where it keeps
	// them out it is what a run costs.
	Wait time.Duration
}

// Verdict is what a run showed.
type Verdict struct {
	Scenario, Subject string
	Violations        []check.Violation
	Hits              []fault.Hit
	Ops               []history.Op
	Took              time.Duration
}

// Held reports whether no promise was broken.
func (v Verdict) Held() bool { return len(v.Violations) == 0 }

// String is held, or broken and how.
func (v Verdict) String() string {
	if v.Held() {
		return "held"
	}
	var kinds []string
	for _, violation := range v.Violations {
		if !slices.Contains(kinds, violation.Check) {
			kinds = append(kinds, violation.Check)
		}
	}
	return "broken: " + strings.Join(kinds, ", ")
}

// runLimit bounds a run; one takes well below a second.
const runLimit = 20 * time.Second

// replays is how often a run is played again for which the machine was too slow.
const replays = 10

// Subjects lists those that play the scenario, the row first.
func (s Scenario) Subjects() []string {
	var ids []string
	for _, c := range s.Casts {
		ids = append(ids, c.Subject)
	}
	return ids
}

// Run plays the scenario once with a subject. An error means that the run shows
// nothing: a fault was not hit, a server did not start, the play went wrong.
func (s Scenario) Run(ctx context.Context, env *Env, subjectID string) (Verdict, error) {
	i := slices.IndexFunc(s.Casts, func(c Cast) bool { return c.Subject == subjectID })
	if i < 0 {
		return Verdict{}, fmt.Errorf("scenario %s: not played by %s, only by %q", s.ID, subjectID, s.Subjects())
	}
	v, err := s.run(ctx, env, s.Casts[i])
	for n := 0; errors.Is(err, errSlow) && n < replays; n++ {
		v, err = s.run(ctx, env, s.Casts[i])
	}
	if err != nil {
		return v, fmt.Errorf("scenario %s with %s: %w", s.ID, subjectID, err)
	}
	return v, nil
}

func (s Scenario) run(ctx context.Context, env *Env, c Cast) (Verdict, error) {
	start := time.Now()
	v := Verdict{Scenario: s.ID, Subject: c.Subject}
	sub, err := env.catalog.Find(c.Subject)
	if err != nil {
		return v, err
	}
	faults, err := fault.ParseSchedule(c.Faults)
	if err != nil {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	st, err := newScenarioRun(ctx, env, sub, s, c, faults)
	if err != nil {
		return v, err
	}
	err = s.play(ctx, st)
	if end := st.end(); err == nil {
		err = end
	}
	v.Hits, v.Ops, v.Took = st.inj.Hits(), st.rec.Ops(), time.Since(start)
	if missed := st.inj.Missed(); err == nil && len(missed) > 0 {
		err = fmt.Errorf("faults that were never hit:\n%v", missed)
	}
	if err != nil {
		return v, err
	}
	v.Violations = check.Run(v.Ops, append(slices.Clone(s.Checks), check.Leftovers(st.left))...)
	return v, nil
}

// All returns every scenario, in the order of the table.
func All() []Scenario {
	return slices.Concat(unfreed(), intruders(), stales(), reentries(), majorities(), dataLosses(), peers())
}
