package virtual

import (
	"slices"
	"testing"
	"time"
)

// attempts is the number of runs after which a program counts as one that does not fail. A
// failing program may not fail each time: see the package comment.
const attempts = 6

// Shrink makes a failing program smaller while the first check with a violation still
// fails, until nothing more can be removed or the budget of real time is spent. It returns
// the smallest result.
func Shrink(t *testing.T, r Result, budget time.Duration) Result {
	s := shrinker{t: t, best: r, check: r.Violations[0].Check, end: time.Now().Add(budget)}
	for s.once() && time.Now().Before(s.end) {
	}
	return s.best
}

type shrinker struct {
	t     *testing.T
	best  Result
	check string
	end   time.Time
}

// try runs a smaller program and keeps it if it also fails.
func (s *shrinker) try(p Program) bool {
	for range attempts {
		if time.Now().After(s.end) {
			return false
		}
		if r := Play(s.t, p); saw(r.Violations, s.check) {
			s.best = r
			return true
		}
	}
	return false
}

// once tries each way to make the program smaller, and reports whether any succeeded.
func (s *shrinker) once() bool {
	better := false
	for size := max(1, len(s.best.Program.Steps)/2); size >= 1; size /= 2 {
		for at := 0; at+size <= len(s.best.Program.Steps); {
			p := s.best.Program
			p.Steps = slices.Delete(slices.Clone(p.Steps), at, at+size)
			if s.try(p) {
				better = true
			} else {
				at += size
			}
		}
	}
	return s.simpler() || better
}

// simpler tries simpler values in the remaining steps.
func (s *shrinker) simpler() bool {
	better := false
	for i, rate := range s.best.Program.Rates {
		if rate != 1 {
			p := s.best.Program
			p.Rates = slices.Clone(p.Rates)
			p.Rates[i] = 1
			better = s.try(p) || better
		}
	}
	for i := range s.best.Program.Steps {
		for _, plain := range []func(*Step){
			func(st *Step) { st.Sleep = 0 },
			func(st *Step) { st.Delay = 0 },
			func(st *Step) { st.Hold = 0 },
			func(st *Step) { st.Way = Plain },
			func(st *Step) { st.Linger = 0 },
			func(st *Step) { st.For = st.For.Truncate(100 * time.Millisecond) },
			func(st *Step) { st.Hold = st.Hold.Truncate(100 * time.Millisecond) },
			func(st *Step) { st.Wait = 8 * time.Second },
		} {
			p := s.best.Program
			p.Steps = slices.Clone(p.Steps)
			plain(&p.Steps[i])
			if p.Steps[i] != s.best.Program.Steps[i] {
				better = s.try(p) || better
			}
		}
	}
	return better
}
