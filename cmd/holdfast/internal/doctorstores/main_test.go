package doctorstores

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// soundPostgreSQL is the PostgreSQL of the tests that do not harm it.
var soundPostgreSQL = sqlservers.Share(sqlservers.LaunchPostgreSQL, sqlservers.WithFsync())

func TestMain(m *testing.M) {
	code := m.Run()
	soundPostgreSQL.Stop()
	soundMySQL.Stop()
	os.Exit(code)
}

// subject is a store of most tests, with an engine.
func subject(open func() engine.Engine) Subject {
	return Subject{Place: "here", Options: diagnosis.Options{Prefix: "holdfast", TTL: 15 * time.Second}, Engine: open}
}

// report is what an examination found.
type report []diagnosis.Finding

func (r report) String() string {
	var b strings.Builder
	for _, f := range r {
		fmt.Fprintf(&b, "%s %s %s: %s -> %s %v\n", f.Status, f.Check, f.Node, f.Found, f.Remedy, f.Values)
	}
	return b.String()
}

// require fails unless there is a finding that matches.
func (r report) require(t *testing.T, check string, status diagnosis.FindingStatus, pattern string) diagnosis.Finding {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for _, f := range r {
		if f.Check == check && f.Status == status && re.MatchString(f.Found) {
			if status != diagnosis.OK && f.Remedy == "" {
				t.Errorf("no remedy: %+v", f)
			}
			return f
		}
	}
	t.Fatalf("no finding %s %s %q in\n%s", status, check, pattern, r)
	return diagnosis.Finding{}
}

// slow matches the warnings that a slow machine gets, however sound the store is.
var slow = regexp.MustCompile("^(an fsync of the log takes|round trips and pauses of up to)")

// requireSound fails unless each of the checks has a finding, and all findings are OK.
func (r report) requireSound(t *testing.T, checks ...string) {
	t.Helper()
	for _, check := range checks {
		if !slices.ContainsFunc(r, func(f diagnosis.Finding) bool { return f.Check == check }) {
			t.Errorf("no finding about %s in\n%s", check, r)
		}
	}
	for _, f := range r {
		if f.Status != diagnosis.OK && !slow.MatchString(f.Found) {
			t.Errorf("not OK: %s %s: %s", f.Status, f.Check, f.Found)
		}
	}
	t.Logf("\n%s", r)
}

// requireWorst fails unless the worst fault is the one.
func (r report) requireWorst(t *testing.T, want diagnosis.Fault) {
	t.Helper()
	if got := (&diagnosis.Report{Findings: r}).Worst(); got != want {
		t.Errorf("worst fault %q, want %q in\n%s", got, want, r)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
