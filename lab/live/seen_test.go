package live_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/live"
	"github.com/holdfast-go/holdfast/lab/process"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// A lock with a known hole is broken by random faults too: the histories say it.
func TestAHoleIsSeen(t *testing.T) {
	s := live.Campaign{Setting: live.Setting{Subject: "token-lua", Nodes: 1}, First: 1, Count: 100, Runners: 3, Enough: 1}.Run(t.Context())
	if len(s.Failures) == 0 {
		t.Fatalf("%d histories, and none is broken: %v", s.Played, s.Errors)
	}
	r := s.Failures[0]
	file := filepath.Join(t.TempDir(), "failure.json")
	if err := r.Save(file); err != nil {
		t.Fatal(err)
	}
	saved, err := live.Load(file)
	if err != nil || !reflect.DeepEqual(saved, r) {
		t.Errorf("read back: %v", err)
	}
	lane := live.NewRunner()
	defer lane.Close()
	again, played, err := lane.Again(t.Context(), saved.Program, 20)
	if err != nil || len(again.Violations) == 0 {
		t.Errorf("played again %d times: %v, %v", played, again.Violations, err)
	}
}

// A seed draws one program, whose faults can be played.
func TestDraw(t *testing.T) {
	kinds, calm := map[fault.Kind]int{}, 0
	for seed := range uint64(2000) {
		settings := []live.Setting{{Subject: "holdfast-quorum"}, {Subject: "token-lua", Nodes: 1}}
		for _, s := range stores.All() {
			settings = append(settings, live.Setting{Subject: s.Subject()})
		}
		for _, s := range settings {
			p := live.Draw(seed, s)
			if !reflect.DeepEqual(p, live.Draw(seed, s)) {
				t.Fatalf("seed %d draws two programs", seed)
			}
			if len(p.Faults) == 0 {
				calm++
			}
			for _, line := range p.Faults {
				f, err := fault.Parse(line)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				kinds[f.Kind]++
			}
			if len(p.Resources) == 0 || slices.ContainsFunc(p.Faults, func(f string) bool { return strings.HasPrefix(f, "kill w1 ") }) {
				t.Fatalf("seed %d: %+v", seed, p)
			}
		}
	}
	if calm == 0 {
		t.Error("no program without faults was drawn")
	}
	for _, k := range fault.Kinds() {
		elsewhere := k == fault.Stall || k == fault.SlowDisk // only scenarios and programs with its focus have it
		if kinds[k] == 0 && !elsewhere && (k != fault.StepClock || process.CanStep()) {
			t.Errorf("no %s was drawn", k)
		}
	}
}

// Stores of somebody else do not suffer.
func TestOtherStoresAreSpared(t *testing.T) {
	for seed := range uint64(2000) {
		for _, line := range live.Draw(seed, live.Setting{Subject: "holdfast", Nodes: 1, Stores: live.OtherStores}).Faults {
			f, err := fault.Parse(line)
			if err != nil || f.Target == "node1" {
				t.Fatalf("seed %d: %s: %v", seed, line, err)
			}
		}
	}
}

// A Redis of somebody else may have a password, a clock of its own and more to do than to report its commands: it is
// not recorded.
func TestOtherStoresAreNotRecorded(t *testing.T) {
	s := redistest.Start(t, redistest.WithPassword("secret"))
	sum := live.Campaign{Setting: live.Setting{Subject: "holdfast"}, On: []string{s.URL()}, First: 1, Count: 2, Runners: 2}.Run(t.Context())
	if sum.Played == 0 || len(sum.Errors) > 0 || sum.Windows > 0 || len(sum.Failures) > 0 || len(sum.Hollow()) > 0 {
		t.Errorf("%d played, errors %q, %d windows, %d failures, hollow %q", sum.Played, sum.Errors, sum.Windows, len(sum.Failures), sum.Hollow())
	}
}
