package mutant_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/mutant"
)

func plantedBugs(t *testing.T) []mutant.Mutant {
	t.Helper()
	all, err := mutant.Planted()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sample returns so many bugs, of those whose tests are short. They change with the day, so that in a season all are played.
func sample(all []mutant.Mutant, n int) []mutant.Mutant {
	all = slices.DeleteFunc(slices.Clone(all), func(m mutant.Mutant) bool { return m.Holds != "" || m.Limit > 0 })
	day := uint64(time.Now().Unix() / 86400)
	rand.New(rand.NewPCG(day, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// Each alternative of a bug's -run is part of the name of a test, so no test leaves it by another name.
func TestPlantedBugsNameTheirTests(t *testing.T) {
	names := map[string][]string{} // of the tests, by package
	for _, m := range plantedBugs(t) {
		at := slices.Index(m.Flags, "-run")
		if at < 0 {
			continue
		}
		if names[m.Package] == nil {
			files, _ := filepath.Glob(filepath.Join(root, m.Package, "*_test.go"))
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				names[m.Package] = append(names[m.Package], regexp.MustCompile(`(?m)^func Test\w+`).FindAllString(string(text), -1)...)
			}
		}
		for part := range strings.SplitSeq(m.Flags[at+1], "|") {
			part, script, _ := strings.Cut(part, "/")
			if found, _ := filepath.Glob(filepath.Join(root, m.Package, "testdata", "*"+strings.TrimSuffix(script, "$")+".txtar")); script != "" && len(found) == 0 {
				t.Errorf("%s: %s: no script of %s is named %s", m.Area, m.Name, m.Package, script)
			}
			if !slices.ContainsFunc(names[m.Package], func(name string) bool { return strings.Contains(name, part) }) {
				t.Errorf("%s: %s: no test of %s has %q in its name", m.Area, m.Name, m.Package, part)
			}
		}
	}
}

// HOLDFAST_LAB_PLANTED is a pattern that selects bugs by "area: name"; without it, six of the day
// are played. HOLDFAST_LAB_SECONDS is how long the tests of a package may take, a minute by default.
func TestPlantedBugsAreKilledByTheirPackage(t *testing.T) {
	which, bugs := os.Getenv("HOLDFAST_LAB_PLANTED"), plantedBugs(t)
	selected, err := regexp.Compile(which)
	if err != nil {
		t.Fatal(err)
	}
	if which == "" {
		bugs = sample(bugs, 6)
	}
	most := time.Minute
	if n, _ := strconv.Atoi(os.Getenv("HOLDFAST_LAB_SECONDS")); n > 0 {
		most = time.Duration(n) * time.Second
	}
	killed, played := map[string]int{}, map[string]int{}
	for _, m := range bugs {
		if !selected.MatchString(m.Area + ": " + m.Name) {
			continue
		}
		v, err := mutant.Kill(t.Context(), root, m, max(most, m.Limit))
		played[m.Area]++
		switch by := strings.Join(v.By, ", "); {
		case err != nil:
			t.Errorf("%s: %v", m.Area, err)
		case m.Holds != "" && by != "":
			t.Errorf("%s: %s: listed as one that survives, and killed by %s\n%.1500s", m.Area, m.Name, by, v.Output)
		case m.Holds != "" && !strings.Contains(v.Output, "PASS\n"):
			t.Errorf("%s: %s: listed as one that survives, and the tests of %s do not end (%v)", m.Area, m.Name, m.Package, v.Took)
		case m.Holds != "":
			v.By = []string{"survives: " + m.Holds}
		case by == "":
			t.Errorf("%s: %s: the tests of %s do not fail (%v)\n%.1500s", m.Area, m.Name, m.Package, v.Took, v.Output)
		default:
			killed[m.Area]++
		}
		t.Logf("| %s | %s | %s | %.1f s |", m.Area, m.Name, strings.Join(v.By, ", "), v.Took.Seconds())
	}
	for _, area := range slices.Sorted(maps.Keys(played)) {
		t.Logf("%s: %d of %d", area, killed[area], played[area])
	}
}

// A pattern that matches no test finds nothing, which is not a bug that survives.
func TestAPlayWithoutTestsIsAnError(t *testing.T) {
	for _, m := range plantedBugs(t) {
		if m.Package == "./internal/gate" {
			m.Flags = []string{"-run", "NoSuchTest"}
			if v, err := mutant.Kill(t.Context(), root, m, time.Minute); err == nil || !strings.Contains(err.Error(), "NoSuchTest") {
				t.Errorf("got %+v, %v; want an error with the pattern", v, err)
			}
			return
		}
	}
	t.Fatal("no bug is planted in internal/gate")
}

func TestNoPlantedBugHasRotted(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range plantedBugs(t) {
		if _, err := m.Patched(root); err != nil {
			t.Error(err)
		}
		if seen[m.Name] || len(m.Patches) == 0 {
			t.Errorf("%s: %s: the name is used twice, or there is no patch", m.Area, m.Name)
		}
		seen[m.Name] = true
	}
}
