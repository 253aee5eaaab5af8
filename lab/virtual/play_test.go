package virtual_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/lab/virtual"
)

// TestMain disables the log of go-redis, which reports connections that the lab breaks.
func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// number reads a setting of the full programme from the environment.
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

// worlds returns the number of programs in each world, unless HOLDFAST_LAB_SCHEDULES is set.
func worlds() map[virtual.World]int {
	return map[virtual.World]int{virtual.Memory: 400, virtual.Documents: 100, virtual.TimedDocuments: 100, virtual.Quorum: 40, virtual.Redis: 12}
}

// TestSchedules runs HOLDFAST_LAB_SCHEDULES programs in each world, from seed
// HOLDFAST_LAB_SEED on, for HOLDFAST_LAB_SECONDS at most. HOLDFAST_LAB_WORLD selects one
// world. A failure is shrunk and saved in HOLDFAST_LAB_OUT.
func TestSchedules(t *testing.T) {
	for world, count := range worlds() {
		if only := os.Getenv("HOLDFAST_LAB_WORLD"); only != "" && only != string(world) {
			continue
		}
		t.Run(string(world), func(t *testing.T) {
			c := virtual.Campaign{
				World: world, Workers: runtime.GOMAXPROCS(0),
				First: uint64(number(t, "HOLDFAST_LAB_SEED", 1)),
				Count: number(t, "HOLDFAST_LAB_SCHEDULES", count),
				For:   time.Duration(number(t, "HOLDFAST_LAB_SECONDS", 0)) * time.Second,
			}
			s := c.Run(t)
			t.Logf("seeds %d to %d: %d programs with %d grants and %d pauses at points, %v of virtual time in %v, %d failed",
				c.First, c.First+uint64(c.Count)-1, s.Played, s.Grants, s.Pauses(), s.Virtual.Round(time.Minute), s.Took.Round(time.Millisecond), len(s.Failures))
			t.Log(s.Lingered)
			t.Logf("what faults hit %v", s.Hit)
			if len(s.Stopped) > 0 {
				t.Logf("pauses at points %v", s.Stopped)
			}
			for _, why := range s.Hollow(world) {
				t.Errorf("hollow: %s", why)
			}
			for _, r := range s.Failures {
				report(t, r)
			}
		})
	}
}

// report shrinks a failure and saves its replay file.
func report(t *testing.T, r virtual.Result) {
	t.Helper()
	t.Errorf("FOUND by %v: seed %d: %v", r.Checks(), r.Program.Seed, r.Violations[0])
	small := virtual.Shrink(t, r, time.Duration(number(t, "HOLDFAST_LAB_SHRINK", 20))*time.Second)
	dir := os.Getenv("HOLDFAST_LAB_OUT")
	if dir == "" {
		dir = os.TempDir()
	}
	file := filepath.Join(dir, fmt.Sprintf("holdfast-lab-%s-%d.json", r.Program.World, r.Program.Seed))
	if err := small.Save(file); err != nil {
		t.Error(err)
	}
	t.Errorf("%d steps are left of %d; replay file %s; %v", len(small.Program.Steps), len(r.Program.Steps), file, small.Violations)
}
