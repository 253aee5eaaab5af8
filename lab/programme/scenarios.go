package programme

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/scenario"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// Cell is one scenario with one subject.
type Cell struct {
	Scenario string        `json:"scenario"`
	Hole     string        `json:"hole"`
	Row      string        `json:"row"` // the subject that has the hole
	Subject  string        `json:"subject"`
	Expect   Expectation   `json:"expect"`
	Runs     int           `json:"runs"` // that showed something
	Broken   int           `json:"broken"`
	How      []string      `json:"how,omitempty"` // the checks that saw it
	First    string        `json:"first,omitempty"`
	Errors   []string      `json:"errors,omitempty"` // of runs that showed nothing
	Took     time.Duration `json:"took"`             // of all runs
}

// Expectation is what every run of a Cell must show.
type Expectation string

// The expectations.
const (
	Hole Expectation = "broken"
	Hold Expectation = "held"
)

// String is held or broken, how often, and how.
func (c Cell) String() string {
	switch {
	case c.Runs == 0:
		return "no run"
	case c.Broken == 0:
		return fmt.Sprintf("held %d/%d", c.Runs, c.Runs)
	}
	return fmt.Sprintf("broken %d/%d: %s", c.Broken, c.Runs, strings.Join(c.How, ", "))
}

// Bad says what is not as it should be; empty: nothing.
func (c Cell) Bad() string {
	switch {
	case c.Expect == Hold && c.Broken > 0:
		return fmt.Sprintf("%s broke in %d of %d runs of %s: %s", c.Subject, c.Broken, c.Runs, c.Scenario, c.First)
	case len(c.Errors) > 0:
		return fmt.Sprintf("the lab failed: %d runs of %s with %s showed nothing: %s", len(c.Errors), c.Scenario, c.Subject, c.Errors[0])
	case c.Expect == Hole && c.Broken < c.Runs:
		return fmt.Sprintf("the lab failed: the hole of %s did not show in %d of %d runs with %s", c.Scenario, c.Runs-c.Broken, c.Runs, c.Subject)
	}
	return ""
}

// ours reports whether a subject is Holdfast.
func ours(subject string) bool { return strings.HasPrefix(subject, "holdfast") }

// cells lists the cells that a plan plays.
func (p Plan) cells() (cells []Cell, plays []scenario.Scenario) {
	for _, s := range scenario.All() {
		for _, id := range s.Subjects() {
			if _, err := p.Catalog.Find(id); err != nil || !p.wants(id) {
				continue
			}
			c := Cell{Scenario: s.ID, Hole: s.Hole, Row: s.Row, Subject: id, Expect: Hold}
			if id == s.Row {
				c.Expect = Hole
			}
			cells, plays = append(cells, c), append(plays, s)
		}
	}
	return cells, plays
}

// scenarios plays each cell in one go, several cells at once.
func (p Plan) scenarios(ctx context.Context) []Cell {
	cells, plays := p.cells()
	atOnce := p.AtOnce
	if atOnce < 1 {
		atOnce = 6
	}
	var (
		mu      sync.Mutex
		next    int
		done    int
		workers sync.WaitGroup
	)
	for range atOnce {
		workers.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(cells) || ctx.Err() != nil {
					return
				}
				cells[i].play(ctx, p.Catalog, plays[i], p.Runs)
				mu.Lock()
				done++
				p.report(Event{Part: "scenarios", Done: done, Of: len(cells),
					Text: fmt.Sprintf("%s with %s: %v", cells[i].Scenario, cells[i].Subject, cells[i]), Bad: cells[i].Bad()})
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return slices.DeleteFunc(cells, func(c Cell) bool { return c.Runs == 0 && len(c.Errors) == 0 })
}

// play plays one cell.
func (c *Cell) play(ctx context.Context, catalog subject.Catalog, s scenario.Scenario, runs int) {
	began := time.Now()
	env := scenario.NewEnv(catalog)
	defer env.Close()
	for range runs {
		v, err := s.Run(ctx, env, c.Subject)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			c.Errors = append(c.Errors, err.Error())
			continue
		}
		c.Runs++
		if v.Held() {
			continue
		}
		c.Broken++
		if c.First == "" {
			c.First = v.Violations[0].String()
		}
		for _, violation := range v.Violations {
			if !slices.Contains(c.How, violation.Check) {
				c.How = append(c.How, violation.Check)
			}
		}
	}
	c.Took = time.Since(began)
}
