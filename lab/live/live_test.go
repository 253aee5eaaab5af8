package live_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/lab/live"
	"github.com/holdfast-go/holdfast/lab/subject"
)

func TestMain(m *testing.M) {
	logging.Disable() // of dials to servers that a fault has killed
	if live.Serve(subject.All()) {
		return
	}
	os.Exit(m.Run())
}

// number reads a setting from the environment.
func number(t *testing.T, name string, without int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return without
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, text, err)
	}
	return n
}

// Random faults do not break Holdfast: HOLDFAST_LAB_RUNS histories on each
// topology, from HOLDFAST_LAB_SEED on, in HOLDFAST_LAB_LANES lanes.
func TestHoldfastIsUnbroken(t *testing.T) {
	for _, subject := range []string{"holdfast", "holdfast-quorum"} {
		t.Run(subject, func(t *testing.T) {
			s := live.Campaign{
				Setting: live.Setting{Subject: subject},
				First:   uint64(number(t, "HOLDFAST_LAB_SEED", 1)), Count: number(t, "HOLDFAST_LAB_RUNS", 6),
				Lanes: number(t, "HOLDFAST_LAB_LANES", 3),
			}.Run(t.Context())
			t.Logf("seeds %d to %d: %d histories with %d grants and %d faults in %v; %d runs showed nothing, %d of them for a fault that was not hit",
				s.Seeds[0], s.Seeds[1], s.Played, s.Grants, s.Faults, s.Took.Round(1e6), s.Invalid, s.Missed)
			for _, text := range s.Errors {
				t.Error(text)
			}
			for _, r := range s.Failures {
				file := filepath.Join(os.TempDir(), "holdfast-lab-live-"+subject+"-"+strconv.FormatUint(r.Program.Seed, 10)+".json")
				if err := r.Save(file); err != nil {
					t.Error(err)
				}
				t.Errorf("seed %d: %d violations, first %v; replay file %s\n%q", r.Program.Seed, len(r.Violations), r.Violations[0], file, r.Hits)
			}
			if s.Played == 0 {
				t.Error("no run has shown anything")
			}
		})
	}
}
