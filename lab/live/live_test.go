package live_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/live"
	"github.com/holdfast-go/holdfast/lab/stores"
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
// store, from HOLDFAST_LAB_SEED on, in HOLDFAST_LAB_LANES lanes.
func TestHoldfastIsUnbroken(t *testing.T) {
	subjects := []string{"holdfast", "holdfast-quorum"}
	for _, s := range stores.Others() {
		subjects = append(subjects, s.Subject())
	}
	command := buildCommand(t)
	for i, subject := range subjects {
		runs, lanes := 6, 3
		switch s, _ := stores.Of(subject); {
		case s.Faults.Takes: // a failover takes a second or more
			runs, lanes = 2, 2
		case i >= 2: // their servers take longer to start
			runs, lanes = 4, 2
		}
		t.Run(subject, func(t *testing.T) {
			s := live.Campaign{
				Setting: live.Setting{Subject: subject, Kind: live.Kind(os.Getenv("HOLDFAST_LAB_KIND"))},
				First:   uint64(number(t, "HOLDFAST_LAB_SEED", 1)), Count: number(t, "HOLDFAST_LAB_RUNS", runs),
				Runners: number(t, "HOLDFAST_LAB_LANES", lanes), Enough: number(t, "HOLDFAST_LAB_ENOUGH", 5),
				Command: command,
				For:     time.Duration(number(t, "HOLDFAST_LAB_SECONDS", 0)) * time.Second,
			}.Run(t.Context())
			t.Logf("seeds %d to %d: %d histories with %d grants, %d trust windows compared with the store, %d kept leases taken, %d recalls, %+v compared with the history in the store, %d promotions, over which %d leases were held and in which %d lost writes, %d terms observed, %d waits for latches and conditions over, and %d faults %v, %d of them pauses at points, %d histories calm, in %v; %d runs showed nothing, %d of them for a fault that was not hit",
				s.Seeds[0], s.Seeds[1], s.Played, s.Grants, s.Windows, s.Lingered, s.Recalls, s.Recorded, s.Promotions, s.Carried, s.LostOver, s.Terms, s.Waited, s.Faults, s.Hit, s.Stopped, s.Calm, s.Took.Round(1e6), s.Invalid, s.Missed)
			for _, text := range s.Errors {
				t.Error(text)
			}
			for _, r := range s.Failures {
				report(t, r)
			}
			if s.Played == 0 {
				t.Error("no run has shown anything")
			}
			for _, why := range s.Hollow() {
				t.Error(why)
			}
		})
	}
}

// buildCommand builds the program holdfast.
func buildCommand(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", file, "./cmd/holdfast")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build holdfast: %v\n%s", err, out)
	}
	return file
}

// report leaves the replay file of a failure.
func report(t *testing.T, r live.Result) {
	t.Helper()
	dir := os.Getenv("HOLDFAST_LAB_OUT")
	if dir == "" {
		dir = os.TempDir()
	}
	file := filepath.Join(dir, fmt.Sprintf("lab-live-%s-%d.json", r.Program.Subject, r.Program.Seed))
	if err := r.Save(file); err != nil {
		t.Error(err)
	}
	redistest.Broken(t, "FOUND by %v: seed %d: %v; replay file %s; faults %q", r.Checks(), r.Program.Seed, r.Violations[0], file, r.Hits)
}
