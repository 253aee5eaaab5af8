package spec_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	update = flag.Bool("update", false, "write the table of README.md and the counterexamples in traces")
	brief  = flag.Bool("brief", false, "leave out the models that take minutes")
)

// jarEnv names the jar of TLC, the model checker of TLA+.
const jarEnv = "HOLDFAST_TLC"

// model is a file in models: a module with its constants, what it shows, and the expected verdict.
type model struct {
	name, module, text, verdict string
	properties                  string
	long                        bool // it takes minutes
}

// result is what TLC reports.
type result struct {
	verdict string // "holds" or "violates" and the property
	found   string // distinct states
	depth   string
	trace   string // the counterexample
}

var (
	comment = regexp.MustCompile(`(?m)^\\\* (.*)$`)
	checked = regexp.MustCompile(`(?m)^(?:INVARIANTS|PROPERTIES) (.*)$`)
	states  = regexp.MustCompile(`\d+ states generated, (\d+) distinct states found`)
	depth   = regexp.MustCompile(`The depth of the complete state graph search is (\d+)`)
	broken  = regexp.MustCompile(`Error: (?:Invariant|Action property) (\w+) is violated`)
	place   = regexp.MustCompile(` line \d+, col \d+ to line \d+, col \d+ of module \w+`)
)

func readModel(t *testing.T, file string) model {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := model{name: strings.TrimSuffix(filepath.Base(file), ".cfg")}
	var text []string
	for _, line := range comment.FindAllStringSubmatch(string(data), -1) {
		if module, ok := strings.CutPrefix(line[1], "Module: "); ok {
			m.module = module
		} else if verdict, ok := strings.CutPrefix(line[1], "Verdict: "); ok {
			m.verdict = verdict
		} else if line[1] == "Takes minutes." {
			m.long = true
		} else {
			text = append(text, line[1])
		}
	}
	m.text = strings.Join(text, " ")
	var properties []string
	for _, line := range checked.FindAllStringSubmatch(string(data), -1) {
		properties = append(properties, strings.Fields(line[1])...)
	}
	m.properties = strings.Join(slices.DeleteFunc(properties, func(p string) bool { return p == "TypeOK" }), ", ")
	if m.module == "" || m.verdict == "" || m.text == "" || m.properties == "" {
		t.Fatalf("%s lacks its text, Module, Verdict or properties", file)
	}
	return m
}

// check runs TLC with one worker and a fixed polynomial, so that a counterexample is always the same.
func (m model) check(t *testing.T, jar string) result {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "java", "-XX:+UseSerialGC", "-Xmx2g", "-Djava.io.tmpdir="+dir, "-cp", jar, "tlc2.TLC",
		"-deadlock", "-workers", "1", "-fp", "1", "-metadir", dir,
		"-config", filepath.Join("models", m.name+".cfg"), m.module+".tla")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("TLC did not end in time:\n%s", out)
	}
	r := result{}
	text := string(out)
	if s := depth.FindStringSubmatch(text); s != nil {
		r.depth = s[1]
	}
	switch violated := broken.FindStringSubmatch(text); {
	case strings.Contains(text, "Model checking completed. No error has been found.") && err == nil:
		r.verdict = "holds"
	case violated != nil:
		r.verdict = "violates " + violated[1]
	case strings.Contains(text, "Error: Temporal properties were violated."):
		r.verdict = "violates a property of time"
	default:
		t.Fatalf("TLC failed: %v\n%s", err, out)
	}
	counts := states.FindAllStringSubmatch(text, -1)
	if counts == nil {
		t.Fatalf("TLC reports no states:\n%s", out)
	}
	last := counts[len(counts)-1]
	r.found = last[1]
	if r.verdict != "holds" {
		from, to := strings.Index(text, "State 1:"), strings.LastIndex(text, "\n"+last[0])
		if from < 0 || to < from {
			t.Fatalf("TLC reports no counterexample:\n%s", out)
		}
		r.trace = place.ReplaceAllString(strings.TrimSpace(text[from:to]), "") + "\n"
		r.depth = fmt.Sprint(strings.Count(r.trace, "State "))
	}
	return r
}

// Each model has the verdict that its file states, each counterexample is the one in traces, and the
// table of README.md has what TLC reports.
func TestModels(t *testing.T) {
	jar := os.Getenv(jarEnv)
	if jar == "" {
		t.Fatalf("%s is not set: run make spec", jarEnv)
	}
	files, err := filepath.Glob("models/*.cfg")
	if err != nil || len(files) == 0 {
		t.Fatalf("no models: %v", err)
	}
	var mu sync.Mutex
	rows := map[string]string{}
	t.Run("all", func(t *testing.T) {
		for _, file := range files {
			m := readModel(t, file)
			if m.long && *brief {
				continue
			}
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				start := time.Now()
				r := m.check(t, jar)
				t.Logf("%s: %s states in %v", r.verdict, r.found, time.Since(start).Round(time.Second))
				if want, timed := strings.CutPrefix(m.verdict, "violates "); r.verdict != m.verdict && !(timed && r.verdict == "violates a property of time" && strings.HasSuffix(m.properties, want)) {
					t.Errorf("%s, want %s\n%s", r.verdict, m.verdict, r.trace)
				}
				if r.verdict == "violates a property of time" {
					r.found, r.trace, r.depth = "", "", "" // TLC looks for one of several now and then, by its clock
				}
				golden(t, filepath.Join("traces", m.name+".txt"), r.trace)
				mu.Lock()
				defer mu.Unlock()
				rows[m.name] = fmt.Sprintf("| [%s](models/%s.cfg) | %s | %s | %s | %s | %s |\n", m.name, m.name, m.text, m.properties, m.verdict, r.found, r.depth)
			})
		}
	})
	if t.Failed() || len(rows) != len(files) {
		return // also if some were selected, or left out
	}
	var table strings.Builder
	table.WriteString("| model | what it is | checked | verdict | states | depth |\n|---|---|---|---|---:|---:|\n")
	for _, file := range files {
		table.WriteString(rows[strings.TrimSuffix(filepath.Base(file), ".cfg")])
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := bytes.Cut(readme, []byte("| model |"))
	if !found {
		t.Fatal("README.md has no table of models")
	}
	golden(t, "README.md", string(head)+table.String())
}

// golden compares a file with what it should have; an empty text is no file.
func golden(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		var err error
		if want == "" {
			err = os.RemoveAll(file)
		} else {
			err = os.WriteFile(file, []byte(want), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s is not what TLC reports; see the change after make spec SPEC=-update\nwant:\n%s", file, want)
	}
}
