package live_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/fault"
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
// store, from HOLDFAST_LAB_SEED on, in HOLDFAST_LAB_LANES lanes. With HOLDFAST_LAB_FOCUS each has a fault of that focus, and the
// stores that have none such are left out; with HOLDFAST_LAB_CHECKS only violations of these checks count.
func TestHoldfastIsUnbroken(t *testing.T) {
	subjects := []string{"holdfast", "holdfast-quorum"}
	for _, s := range stores.Others() {
		subjects = append(subjects, s.Subject())
	}
	command := buildCommand(t)
	if os.Getenv("HOLDFAST_LAB_FOCUS") != "" {
		subjects = slices.DeleteFunc(subjects, func(subject string) bool { return focus(t, subject) == "" })
	}
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
				Setting: live.Setting{Subject: subject, Kind: live.Kind(os.Getenv("HOLDFAST_LAB_KIND")), Focus: focus(t, subject)},
				Checks:  words("HOLDFAST_LAB_CHECKS"),
				First:   uint64(number(t, "HOLDFAST_LAB_SEED", 1)), Count: number(t, "HOLDFAST_LAB_RUNS", runs),
				Runners: number(t, "HOLDFAST_LAB_LANES", lanes), Enough: number(t, "HOLDFAST_LAB_ENOUGH", 5),
				Command: command,
				For:     time.Duration(number(t, "HOLDFAST_LAB_SECONDS", 0)) * time.Second,
			}.Run(t.Context())
			t.Logf("seeds %d to %d: %d histories with %d grants, %d trust windows compared with the store, %d kept leases taken, %d recalls, %+v compared with the history in the store, %d promotions, over which %d leases were held and in which %d lost writes, %d terms observed, %d waits for latches and conditions over, %+v leases at roll-backs, %d with clock rates, and %d faults %v, %d of them pauses at points, %d losses and errors that only a stall explains, %d histories calm, in %v; %d runs showed nothing, %d of them for a fault that was not hit, or a server that was not seen",
				s.Seeds[0], s.Seeds[1], s.Played, s.Grants, s.Windows, s.Lingered, s.Recalls, s.Recorded, s.Promotions, s.Carried, s.LostOver, s.Terms, s.Waited, s.Rolled, s.Rated, s.Faults, s.Hit, s.Stopped, s.ByStall, s.Calm, s.Took.Round(1e6), s.Invalid, s.Missed)
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
				t.Errorf("hollow: %s", why)
			}
		})
	}
}

// focus is the focus that the environment selects, if the subject has it.
func focus(t *testing.T, subject string) live.Focus {
	t.Helper()
	f := live.Focus(os.Getenv("HOLDFAST_LAB_FOCUS"))
	if subject != "holdfast" && subject != "holdfast-quorum" || !slices.Contains(live.Foci(subject), f) {
		return ""
	}
	return f
}

// words reads a setting with commas.
func words(name string) []string {
	return strings.FieldsFunc(os.Getenv(name), func(r rune) bool { return r == ',' })
}

// The fault of each focus is hit, and does not break Holdfast.
func TestFociAreHit(t *testing.T) {
	hit := map[live.Focus]fault.Kind{live.RollBack: fault.RollBack, live.Muted: fault.Mute, live.SlowDisk: fault.SlowDisk}
	for _, subject := range []string{"holdfast", "holdfast-quorum"} {
		for _, f := range live.Foci(subject) {
			t.Run(subject+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				for first := uint64(1); ; first++ { // a fault may not be hit on a busy machine
					s := live.Campaign{Setting: live.Setting{Subject: subject, Focus: f}, First: first, Count: 1}.Run(t.Context())
					for _, text := range s.Errors {
						t.Error(text)
					}
					for _, r := range s.Failures {
						report(t, r)
					}
					if s.Missed > 0 && first < 5 {
						continue
					}
					if s.Played == 0 || hit[f] != "" && s.Hit[hit[f]] == 0 || f == live.ClockRates && s.Rated == 0 {
						t.Errorf("%d histories, %d with clock rates, hit %v", s.Played, s.Rated, s.Hit)
					}
					return
				}
			})
		}
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
