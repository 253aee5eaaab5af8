// Command holdfast-lab plays the torture lab: the holes of the locks that people copy,
// on demand; the same faults on Holdfast; random faults; and bugs planted in Holdfast.
// `holdfast torture` runs it.
//
//	go run ./lab/cmd/holdfast-lab                as much as fits in two minutes
//	go run ./lab/cmd/holdfast-lab -minutes 0     the full programme, about half an hour
//	go run ./lab/cmd/holdfast-lab -subject redsync -minutes 3
//	go run ./lab/cmd/holdfast-lab -subject holdfast-postgres,holdfast-etcd
//	go run ./lab/cmd/holdfast-lab replay FILE    a failure again
//
// Its exit code is 1 if Holdfast broke or the lab did not show what it must. Its other
// codes are those of the command holdfast.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/lab/programme"
	"github.com/holdfast-go/holdfast/lab/stores"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/subject/peer"
)

func main() {
	logging.Disable() // of dials to servers that a fault has killed
	if programme.Serve(catalog()) {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { cancel(&exitError{128 + int((<-signals).(syscall.Signal)), nil}) }()
	os.Exit(exitCode(command(ctx, os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

// catalog returns the subjects. Put your own lock here.
func catalog() subject.Catalog { return append(subject.All(), peer.All()...) }

// Exit codes, as in the command holdfast.
const (
	exitBroke  = 1
	exitUsage  = 64
	exitConfig = 78
	exitFailed = 125
)

// exitError ends the program with a code. Without an error there is nothing to print.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.err) }
func (e *exitError) Unwrap() error { return e.err }

// exitCode prints the error and returns its code.
func exitCode(err error, stderr io.Writer) int {
	exit := &exitError{exitBroke, err}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	errors.As(err, &exit)
	if exit.err != nil {
		fmt.Fprintln(stderr, "holdfast-lab:", exit.err)
	}
	return exit.code
}

// flags are those of the command.
type flags struct {
	minutes            float64
	subjects           string
	redis, redisFile   string
	seed               uint64
	runs, live         int
	virtual            int
	lanes, atOnce      int
	mutants            string
	out, report, notes string
	json               bool
}

// set returns the flag set that fills f.
func (f *flags) set(stderr io.Writer) *flag.FlagSet {
	set := flag.NewFlagSet("holdfast-lab", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.Float64Var(&f.minutes, "minutes", 2, "play as much as fits; 0: the full programme")
	set.StringVar(&f.subjects, "subject", "", "`IDs` of subjects, with commas; empty: all")
	set.StringVar(&f.redis, "redis", "", "`URLs` of stores of yours, with commas; three or five are a quorum. Nothing is flushed, no store is stopped")
	set.StringVar(&f.redisFile, "redis-file", "", "`file` with what -redis would have, which the list of processes shows")
	set.Uint64Var(&f.seed, "seed", 1, "the first of all random runs")
	set.IntVar(&f.runs, "runs", -1, "how often each scenario is played; -1: as the programme says")
	set.IntVar(&f.live, "live", -1, "random histories with real processes, of each lock; -1: as the programme says")
	set.IntVar(&f.virtual, "virtual", -1, "random programs in virtual time, of each world; -1: as the programme says")
	set.IntVar(&f.lanes, "lanes", 4, "how many random histories are played at once")
	set.IntVar(&f.atOnce, "at-once", 6, "how many scenarios are played at once")
	set.StringVar(&f.mutants, "mutants", "", "plant bugs in the project whose `root` this is, and look whether they are found")
	set.StringVar(&f.out, "out", "", "`folder` for replay files")
	set.StringVar(&f.report, "report", "", "`files` for the report, .html or .md, with commas")
	set.StringVar(&f.notes, "figures", "", "`file` whose figures, between two marks, are replaced by those of this run")
	set.BoolVar(&f.json, "json", false, "print the report as JSON")
	return set
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "replay" {
		if len(args) != 2 {
			return &exitError{exitUsage, errors.New("usage: holdfast-lab replay FILE")}
		}
		return replay(ctx, args[1], stdout)
	}
	var f flags
	set := f.set(stderr)
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return &exitError{exitUsage, nil} // the set has printed it
	}
	if set.NArg() > 0 {
		return &exitError{exitUsage, fmt.Errorf("unexpected argument %q", set.Arg(0))}
	}
	if f.redisFile != "" {
		content, err := os.ReadFile(f.redisFile)
		if err != nil {
			return &exitError{exitConfig, err}
		}
		f.redis = strings.TrimSpace(string(content))
	}
	plan, err := f.plan()
	if err != nil {
		return err
	}
	if f.redis != "" {
		fmt.Fprintln(stderr, "holdfast-lab: the stores are those of -redis: nothing is flushed and no store is stopped; keys are written below prefixes that begin with \"lab-\" and are deleted after each run. The scenarios and the faults of stores are left out.")
	}
	played := "holdfast-lab"
	set.Visit(func(given *flag.Flag) {
		if !slices.Contains([]string{"out", "report", "figures", "json"}, given.Name) { // where it goes changes nothing
			played += fmt.Sprintf(" -%s %v", given.Name, given.Value)
		}
	})
	plan.OnEvent = progress(stderr)
	r := plan.Play(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.Command = played
	return errors.Join(f.print(r, stdout), r.Err())
}

// plan turns flags into a plan.
func (f flags) plan() (programme.Plan, error) {
	var subjects []string
	if f.subjects != "" {
		subjects = strings.Split(f.subjects, ",")
	}
	p := programme.Full(catalog())
	if f.minutes > 0 {
		p = programme.Brief(catalog(), f.length(1), subjects...)
	}
	for _, id := range subjects {
		if _, err := p.Catalog.Find(id); err != nil {
			return p, &exitError{exitUsage, err}
		}
	}
	p.Subjects, p.Seed, p.Runners, p.AtOnce, p.Mutants, p.Out = subjects, f.seed, f.lanes, f.atOnce, f.mutants, f.out
	if f.runs >= 0 {
		p.Runs = f.runs
	}
	if f.live >= 0 {
		for i := range p.Live {
			p.Live[i].Count, p.Live[i].For = f.live, 0
		}
	}
	if f.live == 0 {
		p.Live = nil
	}
	if f.virtual >= 0 {
		for i := range p.Virtual {
			p.Virtual[i].Count, p.Virtual[i].For = f.virtual, 0
		}
	}
	if f.virtual == 0 {
		p.Virtual = nil
	}
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return p, &exitError{exitFailed, err}
		}
	}
	return p, f.on(&p)
}

// length is a share of the time that there is.
func (f flags) length(share float64) time.Duration {
	return time.Duration(share * f.minutes * float64(time.Minute))
}

// on takes the stores of -redis in place of the lab's own.
func (f flags) on(p *programme.Plan) error {
	if f.redis == "" {
		return nil
	}
	p.On = strings.Split(f.redis, ",")
	for _, u := range p.On {
		if !strings.HasPrefix(u, "redis://") {
			return &exitError{exitConfig, errors.New("the lab plays on redis:// URLs only, and puts proxies of its own before them")}
		}
	}
	for _, id := range p.Subjects {
		if s, ok := stores.Of(id); ok && s.Name != "redis" {
			return &exitError{exitUsage, fmt.Errorf("%s does not run on the Redis of -redis", id)}
		}
	}
	if len(p.Subjects) > 0 {
		return nil
	}
	id := "holdfast"
	if len(p.On) > 1 {
		id = "holdfast-quorum"
	}
	p.Live = slices.DeleteFunc(p.Live, func(l programme.Live) bool { return l.Subject != id })
	if f.minutes > 0 && f.live < 0 {
		for i := range p.Live {
			p.Live[i].Count, p.Live[i].For = math.MaxInt32, f.length(3./4)
		}
	}
	return nil
}

// print prints the report and writes the files that the flags name.
func (f flags) print(r programme.Report, stdout io.Writer) error {
	var errs []error
	if f.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", " ")
		errs = append(errs, enc.Encode(r))
	} else {
		errs = append(errs, r.Table(stdout))
	}
	for file := range strings.SplitSeq(f.report, ",") {
		if file != "" {
			errs = append(errs, r.Write(file))
		}
	}
	if f.notes != "" {
		errs = append(errs, r.Figures(f.notes))
	}
	return errors.Join(errs...)
}

// progress writes a line for each event.
func progress(w io.Writer) func(programme.Event) {
	began := time.Now()
	return func(e programme.Event) {
		mark := "   "
		if e.Bad != "" {
			mark, e.Text = "BAD", e.Bad
		}
		fmt.Fprintf(w, "%7s %s %-9s %7s  %s\n", programme.Short(time.Since(began)), mark, e.Part, e.Progress(), e.Text)
	}
}

func replay(ctx context.Context, file string, stdout io.Writer) error {
	r, err := programme.Replay(ctx, file)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return &exitError{exitFailed, err}
	}
	return r.Print(stdout)
}
