// Command bench measures what a Holdfast mutex costs, beside the floor that the
// driver and the server set, and beside redsync, all in one run on one
// redis-server that it starts itself. What counts are the ratios: machines are
// noisy, so contenders take turns round by round and medians are reported.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// env is what every scenario gets.
type env struct {
	ctx    context.Context
	server *redistest.Server
	rounds int
	slice  time.Duration // how long a contender runs in a round
}

// scenario measures one thing and judges it by its bars.
type scenario struct {
	name string
	run  func(e *env) (result, error)
}

func main() {
	rounds := flag.Int("rounds", 9, "rounds in which the contenders take turns")
	slice := flag.Duration("slice", 300*time.Millisecond, "time of a contender in a round")
	only := flag.String("only", "", "run one scenario only")
	out := flag.String("json", "", "write the results to this file too")
	strict := flag.Bool("strict", false, "exit 1 if a bar is missed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	missed, err := run(ctx, *rounds, *slice, *only, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if missed > 0 && *strict {
		fmt.Fprintf(os.Stderr, "bench: %d bars missed\n", missed)
		os.Exit(1)
	}
}

// run plays the scenarios and returns how many bars were missed.
func run(ctx context.Context, rounds int, slice time.Duration, only, out string) (missed int, err error) {
	server, err := redistest.Launch()
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	e := &env{ctx: ctx, server: server, rounds: rounds, slice: slice}
	version, err := serverVersion(e)
	if err != nil {
		return 0, err
	}
	fmt.Printf("redis-server %s, %s, %d CPUs, %d rounds of %v\n\n",
		version, runtime.Version(), runtime.NumCPU(), rounds, slice)
	var results []result
	for _, s := range []scenario{
		{"uncontended", uncontended},
		{"server-cpu", serverCPU},
		{"hot", hot},
		{"idle", idle},
	} {
		if only != "" && only != s.name {
			continue
		}
		r, err := s.run(e)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", s.name, err)
		}
		r.Scenario = s.name
		r.print(os.Stdout)
		results = append(results, r)
	}
	if out != "" {
		b, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return 0, err
		}
		if err := os.WriteFile(out, append(b, '\n'), 0o644); err != nil {
			return 0, err
		}
	}
	for _, r := range results {
		for _, b := range r.Bars {
			if !b.Met {
				missed++
			}
		}
	}
	return missed, nil
}
