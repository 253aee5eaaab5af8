package scenario_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/process"
	"github.com/holdfast-go/holdfast/lab/scenario"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/subject/peer"
)

// catalog has all subjects.
func catalog() subject.Catalog { return append(subject.All(), peer.All()...) }

func TestMain(m *testing.M) {
	logging.Disable() // of dials to servers that a fault has killed
	if process.Serve(catalog()) {
		return
	}
	flag.Parse()
	// Runs wait for TTLs and need little CPU.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// runs returns the number of runs of each trial: HOLDFAST_LAB_RUNS, by default 3.
func runs(t *testing.T) int {
	text := os.Getenv("HOLDFAST_LAB_RUNS")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("HOLDFAST_LAB_RUNS=%q: want a number", text)
	}
	return n
}

// Every hole shows in every run, and Holdfast holds in every run.
func TestEveryHoleOnDemand(t *testing.T) {
	n := runs(t)
	for _, s := range scenario.All() {
		for i, id := range s.Subjects() {
			t.Run(s.ID+"/"+id, func(t *testing.T) {
				t.Parallel()
				env := scenario.NewEnv(catalog())
				defer env.Close()
				broken := 0
				var last scenario.Verdict
				for run := range n {
					v, err := s.Run(context.Background(), env, id)
					if err != nil {
						t.Fatalf("run %d: %v\n%s", run+1, err, show(v))
					}
					if !v.Held() {
						broken++
					}
					if i > 0 && !v.Held() {
						redistest.Broken(t, "run %d: %v", run+1, v.Violations)
					}
					if v.Held() == (i == 0) {
						t.Fatalf("run %d: %v: %v\n%s", run+1, v, v.Violations, show(v))
					}
					last = v
				}
				t.Logf("%s: broken %d of %d (%v), last run %v", id, broken, n, last, last.Took.Round(1e6))
			})
		}
	}
}

// show returns the faults and the history of a run as text.
func show(v scenario.Verdict) string {
	text := ""
	for _, hit := range v.Hits {
		text += fmt.Sprintf("%v: %v\n", hit.At, hit.Fault)
	}
	for _, op := range v.Ops {
		text += fmt.Sprintf("%+v\n", op)
	}
	return text
}
