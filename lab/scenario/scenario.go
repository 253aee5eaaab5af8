// Package scenario breaks each classic lock on demand: one scenario for each hole of the
// table in README.md. A scenario is a short program with faults at named points, so that
// the hole shows in every run. The same program, with the same faults at the corresponding
// points, is then run on Holdfast.
//
// Package check checks a run by its recorded history alone. A fault that was never hit is
// an error of the scenario, not a pass.
//
// # Processes, connections and calls
//
// A client that is killed or paused runs in its own process, which gets SIGKILL or
// SIGSTOP, so that its background work, such as a keepalive, stops as well. If a request
// is late or a server slow, only that request (stall) or that connection (delay, deafen,
// blackhole and cut, in a proxy) is affected, and the client runs in the lab's process.
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
	"github.com/holdfast-go/holdfast/lab/subject"
)

// Scenario shows one hole.
type Scenario struct {
	// ID is the row and, after a slash, the hole.
	ID string
	// Row is the subject that has the hole.
	Row string
	// Hole describes the failure in a sentence.
	Hole string
	// Why explains the choice of faults and processes; empty if the package comment is
	// enough.
	Why string
	// Trials are the scenario with each of its subjects, that of the row first.
	Trials []Trial
	// Checks are the checks of its runs.
	Checks []check.Check

	// clients are opened before the faults begin. If warm is set, each of them has
	// used every server once by then.
	clients        []string
	warm           bool
	ignoresContext bool // calls do not return when their ctx ends, as by default in go-redis
	play           func(ctx context.Context, st *scenarioRun) error
}

// Trial is a scenario with one subject, with faults at the points of that subject.
type Trial struct {
	Subject string
	TTL     time.Duration // of clients a and z, whose leases are to expire
	Faults  string        // a fault.Schedule
	// Wait is how long a client waits for a lock that may not be granted. It is long
	// for a subject that is known to grant it, so that a slow machine hides no hole,
	// and short for the others, whose runs take that long.
	Wait time.Duration

	play func(ctx context.Context, st *scenarioRun) error // nil: that of the scenario
}

// Verdict is the result of a run.
type Verdict struct {
	Scenario, Subject string
	Violations        []check.Violation
	Hits              []fault.Hit
	Ops               []history.Op
	Took              time.Duration
}

// Held reports whether there was no violation.
func (v Verdict) Held() bool { return len(v.Violations) == 0 }

// String returns "held", or "broken" and the checks with violations.
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

// runLimit is the timeout of a run, which usually takes well below a second.
const runLimit = 20 * time.Second

// replays is how often a run is repeated if the machine was too slow for it.
const replays = 10

// Subjects returns the subjects of the scenario, that of the row first.
func (s Scenario) Subjects() []string {
	var ids []string
	for _, c := range s.Trials {
		ids = append(ids, c.Subject)
	}
	return ids
}

// Run runs the scenario once with a subject. After an error the run shows nothing: a fault
// was not hit, a server did not start, or the program failed.
func (s Scenario) Run(ctx context.Context, env *Env, subjectID string) (Verdict, error) {
	i := slices.IndexFunc(s.Trials, func(c Trial) bool { return c.Subject == subjectID })
	if i < 0 {
		return Verdict{}, fmt.Errorf("scenario %s: no trial of %s, only of %q", s.ID, subjectID, s.Subjects())
	}
	v, err := s.run(ctx, env, s.Trials[i])
	for n := 0; errors.Is(err, errSlow) && n < replays; n++ {
		v, err = s.run(ctx, env, s.Trials[i])
	}
	if err != nil {
		return v, fmt.Errorf("scenario %s with %s: %w", s.ID, subjectID, err)
	}
	return v, nil
}

func (s Scenario) run(ctx context.Context, env *Env, c Trial) (Verdict, error) {
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
	play := s.play
	if c.play != nil {
		play = c.play
	}
	err = play(ctx, st)
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
	v.Violations = check.Run(v.Ops, append(s.checksOf(sub), check.Leftovers(st.left))...)
	return v, nil
}

// checksOf returns the checks of a run with a subject: of a lock without tokens, none of tokens.
func (s Scenario) checksOf(sub subject.Subject) []check.Check {
	return slices.DeleteFunc(slices.Clone(s.Checks), func(c check.Check) bool {
		return c.Name == check.Tokens().Name && !sub.Traits.Tokens
	})
}

// All returns every scenario, in the order of the table.
func All() []Scenario {
	return slices.Concat(unfreed(), intruders(), stales(), reentries(), majorities(), dataLosses(), peers())
}
