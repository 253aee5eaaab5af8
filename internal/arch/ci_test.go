package arch

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What .ci/run prints last says what failed, in few lines.
func TestSummaryOfFailures(t *testing.T) {
	input, err := os.ReadFile("testdata/failures/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[string]string{"150": "summary.txt", "20": "summary20.txt"} {
		cmd := exec.Command("bash", "../../.ci/failures", lines)
		cmd.Stdin = strings.NewReader(string(input))
		got, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		text, err := os.ReadFile("testdata/failures/" + want)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(text) {
			t.Errorf("%s lines of it:\n%s\nwant:\n%s", lines, got, text)
		}
	}
}

// A test that fails on a slow machine runs again, alone, and is named; what shows a defect
// fails at once.
func TestAgain(t *testing.T) {
	for name, c := range map[string]struct {
		passes bool
		says   string
	}{
		"TestSlow":   {true, "passed when run again, alone: ^TestSlow$/^(part)$ of "},
		"TestBroken": {false, "promise broken: two inside"},
		"TestPanic":  {false, "panic: no"},
		"TestAlways": {false, "again: ^TestAlways$/^("},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("bash", "../../.ci/again", "-run=^"+name+"$", "./testdata/again")
			cmd.Env = append(os.Environ(), "AGAIN_FOLDER="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if passed := err == nil; passed != c.passes || !strings.Contains(string(out), c.says) {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}

// A change has to pass every test: those of make test and those of make test-long, which
// runs the suites that make test leaves out.
func TestTheMakefileRunsEveryTest(t *testing.T) {
	for path, all := range map[string][]string{
		"../../.ci/run": {" check test test-long spec "},
		"../../Makefile": {
			`all=$$($(call packages,$(LONGEST) $(filter-out $(LONGEST),$(MODULES)),$(RANDOM) $(FAULTS) $(BROWSER) $(RULES) $(INSTALL) $(MODELS)));`,
			`test -count=1 $(RULES:%=./%)`, `$(MODELS:%=./%) $(SPEC)`, `$$($(call packages,$(RANDOM),$(FAULTS) $(MODELS)))`, `.ci/again -p=2 -vet=off -timeout=$(TIMEOUT) $(FAULTS:%=./%/...)`,
			`.ci/again -vet=off -timeout=$(TIMEOUT) -artifacts -outputdir=$(CURDIR)/.artifacts $(BROWSER:%=./%/...)`, `test -vet=off -timeout=$(TIMEOUT) $(INSTALL:%=./%/...)`,
		},
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range all {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", path, want)
			}
		}
	}
}
