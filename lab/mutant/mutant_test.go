package mutant_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/mutant"
)

// root is that of the project.
const root = "../.."

// The patches of all mutants apply to the present source.
func TestNoneHasRotted(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mutant.All() {
		if _, err := m.Patched(root); err != nil {
			t.Error(err)
		}
		if seen[m.Name] || len(m.Checks) == 0 && len(m.Patches) > 0 {
			t.Errorf("mutant %q: the name is used twice, or there are no checks", m.Name)
		}
		seen[m.Name] = true
	}
}

// quick reports whether a mutant is searched for without HOLDFAST_LAB_MUTANTS.
func quick(name string) bool {
	return name == "the trust window has no margin" || name == "a token is given twice" ||
		name == "Lock does not look at the clock before it returns" // it needs a pause at a point
}

// controlOfTheDay returns a control in virtual time. It changes with the day.
func controlOfTheDay() mutant.Mutant {
	var all []mutant.Mutant
	for _, m := range mutant.All() {
		if len(m.Patches) == 0 && m.World != mutant.Live {
			all = append(all, m)
		}
	}
	return all[int(time.Now().Unix()/86400)%len(all)]
}

// A few random programs that pause processes at points of their clients find nothing in Holdfast.
// HOLDFAST_LAB_MUTANTS=control plays them for longer, in all worlds and live.
func TestPausesAtPoints(t *testing.T) {
	m := controlOfTheDay()
	v, err := mutant.Hunt(t.Context(), root, m, 0)
	if err != nil || len(v.By) > 0 {
		t.Errorf("%s: %v; found by %v, seed %d\n%.3000s", m.Name, err, v.By, v.Seed, v.Output)
	}
	played := regexp.MustCompile(`\d+ programs with \d+ grants and [1-9]\d* pauses at points`).FindString(v.Output)
	if played == "" {
		t.Errorf("%s: no program was paused at a point\n%.3000s", m.Name, v.Output)
	}
	t.Logf("%s: %s", m.Name, played)
}

// HOLDFAST_LAB_MUTANTS selects the mutants whose name contains its value, or all; without
// it, those of quick are searched for. HOLDFAST_LAB_SECONDS bounds the search for each, a minute by default, and a bug's own limit if that is longer.
func TestMutantsAreFound(t *testing.T) {
	which, most := os.Getenv("HOLDFAST_LAB_MUTANTS"), time.Minute
	if n, _ := strconv.Atoi(os.Getenv("HOLDFAST_LAB_SECONDS")); n > 0 {
		most = time.Duration(n) * time.Second
	}
	var table strings.Builder
	for _, m := range mutant.All() {
		switch {
		case which == "" && !quick(m.Name), which != "" && which != "all" && !strings.Contains(m.Name, which):
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			v, err := mutant.Hunt(t.Context(), root, m, most)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case m.Holds == "" && !v.Found():
				t.Errorf("not found by %v in %v; found by %v\n%.3000s", m.Checks, v.Took, v.By, v.Output)
			case m.Holds != "" && !m.Rare && len(v.By) > 0:
				t.Errorf("listed as one that survives, and found by %v, seed %d\n%.3000s", v.By, v.Seed, v.Output)
			}
			result := fmt.Sprintf("%s, seed %d", strings.Join(v.By, ", "), v.Seed)
			if m.Holds != "" && len(v.By) == 0 {
				result = "survives: " + m.Holds
			}
			fmt.Fprintf(&table, "| %s | %s | %.1f s |\n", m.Name, result, v.Took.Seconds())
		})
	}
	t.Logf("\n| mutant | found by | after |\n|---|---|---|\n%s", table.String())
}
