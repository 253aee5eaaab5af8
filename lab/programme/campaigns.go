package programme

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/live"
	"github.com/holdfast-go/holdfast/lab/stores"
	"github.com/holdfast-go/holdfast/lab/virtual"
)

// Campaign is what came of random runs, live or virtual.
type Campaign struct {
	World   string      `json:"world"`   // live, or the world of virtual time
	Subject string      `json:"subject"` // an ID of package subject
	First   uint64      `json:"first"`   // seed
	Last    uint64      `json:"last"`
	Played  int         `json:"played"` // histories
	Invalid int         `json:"invalid,omitempty"`
	Missed  int         `json:"missed,omitempty"` // of the invalid: a fault was never hit
	Grants  int         `json:"grants"`
	Windows int         `json:"windows,omitempty"`  // trust windows that were compared with what the stores did; live
	Faults  int         `json:"faults,omitempty"`   // that happened; not counted in virtual time
	Calm    int         `json:"calm,omitempty"`     // histories without faults and stalls; live
	ByStall int         `json:"by_stall,omitempty"` // lost leases and errors that only a stall of the machine explains; live
	Hollow  []string    `json:"hollow,omitempty"`   // why the campaign shows less than it seems to
	Rolled  live.Rolled `json:"rolled,omitzero"`    // leases that were relied on when a Redis was rolled back; live
	Rated   int         `json:"rated,omitempty"`    // histories in which the clocks of stores ran at other rates; live
	// Controls are what is known to break, and was played beside it; live.
	Controls []live.ControlResult `json:"controls,omitempty"`
	Virtual  time.Duration        `json:"virtual,omitempty"` // time that passed in the bubbles
	Took     time.Duration        `json:"took"`
	Broken   int                  `json:"broken"` // histories with violations
	How      []string             `json:"how,omitempty"`
	Files    []string             `json:"files,omitempty"`  // replay files, of Holdfast's failures
	Errors   []string             `json:"errors,omitempty"` // of runs that show nothing, but for missed faults
}

// Bad says what is not as it should be; empty: nothing. That other locks break is
// no news.
func (c Campaign) Bad() string {
	switch {
	case c.Broken > 0 && ours(c.Subject):
		return fmt.Sprintf("%s broke in %d of %d %s histories (%v); replay files: %v", c.Subject, c.Broken, c.Played, c.World, c.How, c.Files)
	case len(c.Errors) > 0:
		return fmt.Sprintf("the lab failed in %s runs of %s: %s", c.World, c.Subject, c.Errors[0])
	case len(c.Hollow) > 0:
		return fmt.Sprintf("the lab failed: %s histories of %s: %s", c.World, c.Subject, strings.Join(c.Hollow, "; "))
	case c.Played == 0:
		return fmt.Sprintf("the lab failed: no %s run of %s has shown anything", c.World, c.Subject)
	}
	return ""
}

// how collects the names of checks.
func (c *Campaign) how(found []check.Violation) {
	for _, v := range found {
		if !slices.Contains(c.How, v.Check) {
			c.How = append(c.How, v.Check)
		}
	}
}

// keep leaves a replay file.
func (p Plan) keep(c *Campaign, seed uint64, save func(file string) error) {
	dir := p.Out
	if dir == "" {
		dir = os.TempDir()
	}
	file := filepath.Join(dir, fmt.Sprintf("lab-%s-%s-%d.json", c.World, c.Subject, seed))
	if err := save(file); err != nil {
		c.Errors = append(c.Errors, err.Error())
		return
	}
	c.Files = append(c.Files, file)
}

// every is the number of runs between two reports of progress.
const every = 10

// mostFiles is how many replay files of one campaign are kept.
const mostFiles = 5

// mostEnsembles is how many runs of a store with several members are played at once: each has
// members of its own.
const mostEnsembles = 2

// live plays random histories with real processes.
func (p Plan) live(ctx context.Context, l Live) Campaign {
	c := Campaign{World: "live", Subject: l.Subject}
	kind, err := p.Catalog.Find(l.Subject)
	if err != nil {
		c.Errors = []string{err.Error()}
		return c
	}
	setting := live.Setting{Subject: l.Subject}
	if !ours(l.Subject) {
		setting.Nodes = kind.Nodes
	}
	lanes := p.Runners
	if lanes < 1 {
		lanes = 4
	}
	if s, _ := stores.Of(l.Subject); s.Members > 1 {
		lanes = min(lanes, mostEnsembles)
	}
	var controls []live.Control
	if len(p.On) == 0 {
		controls = live.Controls(l.Subject)
	}
	done := 0
	s := live.Campaign{Setting: setting, On: p.On, First: p.Seed, Count: l.Count, For: l.For, Runners: lanes, Controls: controls,
		Done: func(r live.Result, _ error) {
			done++
			e := Event{Part: "live", Done: done, Of: l.Count, Text: fmt.Sprintf("%s: %d histories", l.Subject, done)}
			if len(r.Violations) > 0 && ours(l.Subject) {
				e.Bad = fmt.Sprintf("%s broke: seed %d: %v", l.Subject, r.Program.Seed, r.Violations[0])
			}
			if e.Bad != "" || done%every == 0 {
				p.report(e)
			}
		}}.Run(ctx)
	c.First, c.Last = s.Seeds[0], s.Seeds[1]
	c.Played, c.Invalid, c.Missed, c.Grants, c.Faults, c.Took = s.Played, s.Invalid, s.Missed, s.Grants, s.Faults, s.Took
	c.Errors, c.Windows, c.Calm, c.Hollow = s.Errors, s.Windows, s.Calm, s.Hollow()
	c.Rolled, c.Rated, c.ByStall, c.Controls = s.Rolled, s.Rated, s.ByStall, s.Controls
	for _, r := range s.Failures {
		c.Broken++
		c.how(r.Violations)
		if ours(l.Subject) && len(c.Files) < mostFiles {
			p.keep(&c, r.Program.Seed, r.Save)
		}
	}
	return c
}

// names of Holdfast's subjects by world.
func subjectOf(w virtual.World) string {
	switch w {
	case virtual.Memory:
		return "holdfast-memory"
	case virtual.Quorum:
		return "holdfast-quorum"
	case virtual.Documents, virtual.TimedDocuments:
		return "holdfast-documents"
	}
	return "holdfast"
}
