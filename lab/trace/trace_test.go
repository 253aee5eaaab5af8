package trace_test

import (
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/trace"
	"github.com/holdfast-go/holdfast/lab/virtual"
)

var (
	update = flag.Bool("update", false, "write the table of spec/README.md")
	brief  = flag.Bool("brief", false, "check a tenth of the traces")
)

const (
	// full is the number of traces.
	full = 1000
	// most is how many are recorded at most, to plant divergences.
	most = 10 * full
	// perStart is how many of them TLC checks in one start.
	perStart = 200
	// each is how often a divergence is planted.
	each = 5
)

// newTLC returns the model checker, which make spec fetches.
func newTLC(t *testing.T) trace.TLC {
	t.Helper()
	jar := os.Getenv("HOLDFAST_TLC")
	if jar == "" {
		t.Fatal("HOLDFAST_TLC is not set: run make spec")
	}
	return trace.TLC{Jar: jar, Spec: filepath.Join("..", "..", "spec")}
}

// recorded yields a number of traces of programs in memory. It counts those that cannot be used, and why.
func recorded(t *testing.T, count int, unfit map[string]int) iter.Seq[trace.Trace] {
	return func(yield func(trace.Trace) bool) {
		for seed, left := uint64(1), count; ; seed++ {
			var r trace.Recorder
			virtual.PlayObserved(t, virtual.Draw(seed, virtual.Memory), r.Wrap) // TestSchedules judges the history
			for _, tr := range r.Traces() {
				if tr.Unfit != "" {
					unfit[tr.Unfit]++
				} else if len(tr.Fixed) > 0 {
					if left--; !yield(*tr) || left == 0 {
						return
					}
				}
			}
		}
	}
}

func TestTracesAreAccepted(t *testing.T) {
	tlc, count := newTLC(t), full
	if *brief {
		count /= 10
	}
	unfit := map[string]int{}
	traces := slices.Collect(recorded(t, count, unfit))
	start, calls := time.Now(), map[trace.Op]int{}
	for _, tr := range traces {
		for _, e := range tr.Events {
			calls[e.Op]++
		}
	}
	for _, op := range []trace.Op{trace.Ask, trace.Renew, trace.Leave, trace.Break} {
		if calls[op] == 0 {
			t.Errorf("no trace has a call %q", op)
		}
	}
	for _, b := range trace.Batches(traces, perStart) {
		queue, err := tlc.Queue(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		token, err := tlc.Token(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for i, tr := range b.Traces {
			for module, v := range map[string]trace.Verdict{"Queue": queue[i], "Token": token[i]} {
				if !v.Accepted {
					t.Errorf("%s does not explain event %d of a trace of %s: %s\n%+v", module, v.At, tr.Resource, v.Text, tr.Events[max(0, v.At-3):v.At+1])
				}
			}
		}
	}
	t.Logf("%d traces with calls %v in %v; left out: %v", len(traces), calls, time.Since(start).Round(time.Second), unfit)
}

// Each divergence is rejected at the event that has it, by the module that is to find it, and what is before it is
// accepted.
func TestDivergencesAreRejected(t *testing.T) {
	tlc := newTLC(t)
	where := map[string][]trace.Trace{} // by module
	names := map[string][]string{}
	left := map[string]int{} // that are still to be planted, by name
	for _, d := range trace.Divergences {
		left[d.Name] = each
	}
	for tr := range recorded(t, most, map[string]int{}) { // few traces have a place for the rare ones
		for _, d := range trace.Divergences {
			if left[d.Name] == 0 {
				continue
			}
			if planted, ok := d.Plant(tr, 0); ok {
				where[d.Module], names[d.Module] = append(where[d.Module], planted), append(names[d.Module], d.Name)
				if left[d.Name]--; left[d.Name] == 0 {
					delete(left, d.Name)
				}
			}
		}
		if len(left) == 0 {
			break
		}
	}
	for name, n := range left {
		t.Errorf("%s: planted %d times in %d traces, want %d", name, each-n, most, each)
	}
	rejected := map[string]int{}
	for module, planted := range where {
		check := tlc.Queue
		if module == "Token" {
			check = tlc.Token
		}
		for i := range planted {
			planted[i].Resource = names[module][i]
		}
		for _, b := range trace.Batches(planted, perStart) {
			verdicts, err := check(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range verdicts {
				tr := b.Traces[i]
				if last := len(tr.Events) - 1; v.Accepted || v.At != last {
					t.Errorf("%s: %+v, want a rejection at event %d\n%+v", tr.Resource, v, last, tr.Events[max(0, last-2):])
				} else {
					rejected[tr.Resource]++
				}
			}
		}
	}
	var table strings.Builder
	table.WriteString("| planted | module | rejected |\n|---|---|---|\n")
	for _, d := range trace.Divergences {
		fmt.Fprintf(&table, "| %s | %s | %d of %d |\n", d.Name, d.Module, rejected[d.Name], each)
	}
	golden(t, filepath.Join(tlc.Spec, "README.md"), table.String())
}

// golden compares the table of a file that begins like another with that, or replaces it.
func golden(t *testing.T, file, table string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(table, "\n")
	head, rest, _ := strings.Cut(string(data), first)
	_, tail, found := strings.Cut(rest, "|\n\n")
	if !found {
		t.Fatalf("%s has no table %q", file, first)
	}
	want := head + table + "\n" + tail
	switch {
	case want == string(data):
	case !*update:
		t.Errorf("%s has another table; make spec SPEC=-update writes it:\n%s", file, table)
	default:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
