package programme_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/programme"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/subject/peer"
	"github.com/holdfast-go/holdfast/lab/virtual"
)

// catalog has all subjects.
func catalog() subject.Catalog { return append(subject.All(), peer.All()...) }

func TestMain(m *testing.M) {
	logging.Disable() // of dials to servers that a fault has killed
	if programme.Serve(catalog()) {
		return
	}
	os.Exit(m.Run())
}

// A small programme is played as the full one is.
func TestPlay(t *testing.T) {
	var parts []string
	r := programme.Plan{
		Catalog: catalog(), Subjects: []string{"set-nx-del", "holdfast"}, Runs: 1, Seed: 7, Out: t.TempDir(),
		Live:    []programme.Live{{Subject: "holdfast", Count: 2}},
		Virtual: []programme.Virtual{{World: virtual.Memory, Count: 20}},
		OnEvent: func(e programme.Event) { parts = append(parts, e.Part) },
	}.Play(t.Context())
	if err := r.Err(); errors.Is(err, programme.ErrBroke) {
		redistest.Broken(t, "%v", err)
	} else if err != nil {
		t.Error(err)
	}
	said := strings.Join(parts, " ")
	if len(r.Scenarios) < 10 || len(r.Live) != 1 || len(r.Virtual) != 1 || !strings.Contains(said, "scenarios") {
		t.Errorf("%d cells, %d and %d campaigns, reported %s", len(r.Scenarios), len(r.Live), len(r.Virtual), said)
	}
	for _, c := range r.Random() {
		if c.Played == 0 || c.Grants == 0 || c.First != 7 {
			t.Errorf("%+v", c)
		}
	}
	if controls := r.Controls(); len(controls) != 3 || r.Live[0].Bad() != "" {
		t.Errorf("controls %+v: %s", controls, r.Live[0].Bad())
	}
	page := filepath.Join(t.TempDir(), "report.html")
	if err := r.Write(page); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "set-nx-del/failed-attempt") || !strings.HasPrefix(string(text), "<!doctype html>") {
		t.Errorf("%v: %.200s", err, text)
	}
}

// What must be distinguished: Holdfast broke, the lab failed, and others broke.
func TestVerdicts(t *testing.T) {
	cell := func(subject string, expect programme.Expectation, broken int) programme.Report {
		return programme.Report{Scenarios: []programme.Cell{{Subject: subject, Scenario: "x", Expect: expect, Runs: 3, Broken: broken, How: []string{"overlap"}}}}
	}
	campaign := func(subject string, played, broken int) programme.Report {
		return programme.Report{Live: []programme.Campaign{{World: "live", Subject: subject, Played: played, Broken: broken}}}
	}
	for name, c := range map[string]struct {
		r    programme.Report
		want error
	}{
		"all is well":              {cell("redlock", programme.Hole, 3), nil},
		"a hole shows seldom":      {cell("redlock", programme.Hole, 2), programme.ErrLab},
		"Holdfast held":            {cell("holdfast", programme.Hold, 0), nil},
		"Holdfast broke once":      {cell("holdfast-quorum", programme.Hold, 1), programme.ErrBroke},
		"a run showed nothing":     {programme.Report{Scenarios: []programme.Cell{{Subject: "holdfast", Expect: programme.Hold, Runs: 2, Errors: []string{"never hit"}}}}, programme.ErrLab},
		"Holdfast broke at random": {campaign("holdfast", 9, 1), programme.ErrBroke},
		"others broke at random":   {campaign("redsync", 9, 5), nil},
		"nothing was played":       {campaign("holdfast", 0, 0), programme.ErrLab},
		"a mutant survived":        {programme.Report{Mutants: []programme.Mutant{{Name: "x"}}}, programme.ErrLab},
		"a survivor was found":     {programme.Report{Mutants: []programme.Mutant{{Name: "x", Holds: "it cannot", Found: true}}}, programme.ErrLab},
		"nothing was granted":      {programme.Report{Live: []programme.Campaign{{Subject: "holdfast", Played: 1, Hollow: []string{"no lease was granted"}}}}, programme.ErrLab},
		"a control held":           {programme.Report{Live: []programme.Campaign{{Subject: "holdfast", Played: 1, Hollow: []string{"a control passed: x held in 8 histories"}}}}, programme.ErrLab},
		"a mutant that is known":   {programme.Report{Mutants: []programme.Mutant{{Name: "x", Holds: "so it is"}}}, nil},
	} {
		if err := c.r.Err(); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// Figures replaces what stands between the marks, and nothing else.
func TestFigures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	r := programme.Report{Began: time.Unix(0, 0), Seed: 1, Scenarios: []programme.Cell{{Scenario: "a/b", Hole: "x | y", Row: "redlock", Subject: "redlock", Expect: programme.Hole, Runs: 1, Broken: 1, How: []string{"overlap"}}}}
	if err := os.WriteFile(file, []byte("no marks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.Figures(file); err == nil {
		t.Error("a file without marks is written")
	}
	const begin, end = "<!-- figures: written by the lab, do not edit -->", "<!-- end of figures -->"
	if err := os.WriteFile(file, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Figures(file); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if !strings.HasPrefix(got, "before\n"+begin) || !strings.HasSuffix(got, end+"\nafter\n") || strings.Contains(got, "old\n") || strings.Count(got, `x \| y`) != 1 {
		t.Errorf("%s", got)
	}
}

// A file that is no replay file is refused.
func TestReplayOfNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	for _, text := range []string{"", "{}", `{"kind":"live"`} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := programme.Replay(t.Context(), file); err == nil {
			t.Errorf("%q: %+v", text, r)
		}
	}
}
