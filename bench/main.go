// Command bench measures the cost of a Holdfast mutex and compares it with the floors
// of the drivers and the server and with other Go locks on Redis, in one run, on
// redis-servers that it starts. Ratios matter more than figures: machines are noisy, so
// contenders take turns round by round and medians are reported. docs/PERFORMANCE.md
// explains the figures.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// flags is the command line.
type flags struct {
	rounds  int
	slice   time.Duration
	only    string
	stores  string
	out     string // folder for all files
	json    string // one more file
	docs    string // document to fill
	from    string // file to read instead of a run
	big     bool
	pool    int
	strict  bool
	verbose bool
}

func main() {
	if workerMain() {
		return
	}
	var f flags
	flag.IntVar(&f.rounds, "rounds", 5, "number of rounds; in each, every contender has a slice")
	flag.DurationVar(&f.slice, "slice", 500*time.Millisecond, "length of a slice; some scenarios use a multiple")
	flag.StringVar(&f.only, "only", "", "run only these scenarios, separated by commas; \"stores\" is all that begin with it")
	flag.StringVar(&f.stores, "store", "", "run the scenarios of stores on these stores only, separated by semicolons")
	flag.StringVar(&f.json, "json", "", "write the results to this file")
	flag.StringVar(&f.out, "out", "", "write results.json, results.md and charts (PNG and SVG) into this folder")
	flag.StringVar(&f.docs, "docs", "", "write the tables into this document, at its lines <!-- bench: SCENARIO -->")
	flag.StringVar(&f.from, "from", "", "measure nothing; write the other files from this JSON file")
	flag.BoolVar(&f.big, "big", false, "also measure up to 1,000,000 idle leases; takes a few more minutes")
	flag.IntVar(&f.pool, "pool", 0, "connections of every go-redis client in a crowd; 0 means one per caller, at least 10")
	flag.BoolVar(&f.strict, "strict", false, "exit 1 if a bar is missed")
	flag.BoolVar(&f.verbose, "v", false, "print each slice to standard error")
	flag.Parse()
	if f.from != "" {
		if err := redraw(f); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	missed, err := run(ctx, f, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if missed > 0 && f.strict {
		fmt.Fprintf(os.Stderr, "bench: %d bars missed\n", missed)
		os.Exit(1)
	}
}

// run runs the scenarios and returns the number of missed bars.
func run(ctx context.Context, f flags, out io.Writer) (missed int, err error) {
	logging.Disable()
	size := fullProgram()
	if f.big {
		size = size.big()
	}
	chosen, err := choose(scenarios(size), f.only, f.stores)
	if err != nil {
		return 0, err
	}
	c, err := pinSelf()
	if err != nil {
		return 0, err
	}
	s, err := newTestbed(c, f.rounds, f.slice)
	if err != nil {
		return 0, err
	}
	defer s.close()
	s.pool = f.pool
	o, err := s.outcome(ctx)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "%s\n\n", o.About)
	progress := io.Discard
	if f.verbose {
		progress = os.Stderr
	}
	for _, sc := range chosen {
		for _, v := range sc.cases {
			t, err := sc.run(ctx, s, v, progress)
			if err != nil {
				return 0, err
			}
			t.print(out)
			o.Tables = append(o.Tables, t)
		}
	}
	return o.finish(f, out)
}

// choose returns the scenarios of some names or groups, for stores with the cases of some.
func choose(all []scenario, only, stores string) (chosen []scenario, err error) {
	if only == "" {
		chosen = all
	} else {
		for name := range strings.SplitSeq(only, ",") {
			n := len(chosen)
			for _, sc := range all {
				if selects(name, sc.name) {
					chosen = append(chosen, sc)
				}
			}
			if len(chosen) == n {
				return nil, fmt.Errorf("no scenario %q", name)
			}
		}
	}
	if stores == "" {
		return chosen, nil
	}
	some := strings.Split(stores, ";")
	for _, name := range some {
		if !slices.Contains(storeNames(), name) {
			return nil, fmt.Errorf("no store %q: there are %q", name, storeNames())
		}
	}
	for i := range chosen {
		chosen[i].cases = slices.DeleteFunc(slices.Clone(chosen[i].cases), func(v variant) bool {
			at := v.store()
			return at != "" && !slices.Contains(some, at)
		})
	}
	return chosen, nil
}

// selects reports whether a name in the flag -only is that of a scenario or of its group.
func selects(name, scenario string) bool {
	return name == scenario || name == "stores" && ofStores(scenario)
}

// askFor reports whether a run with these flags has to measure a bar, whether it did or not.
func (f flags) askFor(b bar) bool {
	c, _ := contenderNamed(b.contender) // an unknown one is of no store
	return (f.only == "" || slices.ContainsFunc(strings.Split(f.only, ","), func(name string) bool { return selects(name, b.scenario) })) &&
		(f.stores == "" || c.on.store == "" || slices.Contains(strings.Split(f.stores, ";"), c.on.store))
}

// outcome is the results of a run.
type outcome struct {
	About  about
	Tables []table
	Bars   []verdict
}

// about is the conditions of a run.
type about struct {
	Date   string
	Redis  string
	Go     string
	CPUs   int
	Cores  string
	Rounds int
	Slice  string
	Pool   int `json:",omitempty"` // of the flag -pool
}

func (a about) String() string {
	return fmt.Sprintf("%s, redis-server %s, %s, %d CPUs, %s, %d rounds of %s",
		a.Date, a.Redis, a.Go, a.CPUs, a.Cores, a.Rounds, a.Slice)
}

func (s *testbed) outcome(ctx context.Context) (*outcome, error) {
	info, err := s.meter.rdb.Info(ctx, "server").Result()
	if err != nil {
		return nil, err
	}
	_, v, _ := strings.Cut(info, "redis_version:")
	v, _, _ = strings.Cut(v, "\r")
	n := len(s.cores.server) + len(s.cores.clients)
	if n == 0 {
		n = runtime.NumCPU()
	}
	return &outcome{About: about{
		Date: time.Now().UTC().Format(time.DateOnly), Redis: v, Go: runtime.Version(), CPUs: n,
		Cores: s.cores.String(), Rounds: s.rounds, Slice: s.slice.String(), Pool: s.pool,
	}}, nil
}
