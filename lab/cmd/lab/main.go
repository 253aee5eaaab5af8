// Command lab plays the torture lab: the holes of the locks that people copy, on
// demand; the same faults on Holdfast; random faults; and bugs planted in Holdfast.
//
//	go run ./lab/cmd/lab                         the full programme, about half an hour
//	go run ./lab/cmd/lab -minutes 3              as much as fits
//	go run ./lab/cmd/lab -subject redsync -minutes 2
//	go run ./lab/cmd/lab replay FILE             a failure again
//
// It ends with 1 if Holdfast broke or the lab did not show what it must.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/lab/programme"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/subject/peer"
)

func main() {
	logging.Disable() // of dials to servers that a fault has killed
	if programme.Serve(catalog()) {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// catalog is everybody who plays. Put your own lock here.
func catalog() subject.Catalog { return append(subject.All(), peer.All()...) }

// flags are those of the command.
type flags struct {
	minutes            float64
	subjects           string
	seed               uint64
	runs, live         int
	virtual            int
	lanes, atOnce      int
	mutants            string
	out, report, notes string
	json               string
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "replay" {
		if len(args) != 2 {
			return errors.New("usage: lab replay FILE")
		}
		return replay(ctx, args[1])
	}
	var f flags
	set := flag.NewFlagSet("lab", flag.ContinueOnError)
	set.Float64Var(&f.minutes, "minutes", 0, "play as much as fits; 0: the full programme")
	set.StringVar(&f.subjects, "subject", "", "`IDs` of subjects, with commas; empty: all")
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
	set.StringVar(&f.json, "json", "", "`file` for the report as JSON")
	if err := set.Parse(args); err != nil {
		return err
	}
	played := "go run ./lab/cmd/lab"
	set.Visit(func(given *flag.Flag) {
		if !slices.Contains([]string{"out", "report", "figures", "json"}, given.Name) { // where it goes changes nothing
			played += fmt.Sprintf(" -%s %v", given.Name, given.Value)
		}
	})
	return play(ctx, f, played)
}

func play(ctx context.Context, f flags, played string) error {
	plan := f.plan()
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return err
		}
	}
	plan.Heard = progress(time.Now())
	r := plan.Play(ctx)
	r.Command = played
	if err := r.Markdown(os.Stdout); err != nil {
		return err
	}
	return errors.Join(f.save(r), r.Err())
}

// plan turns flags into a plan.
func (f flags) plan() programme.Plan {
	var subjects []string
	if f.subjects != "" {
		subjects = strings.Split(f.subjects, ",")
	}
	p := programme.Full(catalog())
	if f.minutes > 0 {
		p = programme.Brief(catalog(), time.Duration(f.minutes*float64(time.Minute)), subjects...)
	}
	p.Subjects, p.Seed, p.Lanes, p.AtOnce, p.Mutants, p.Out = subjects, f.seed, f.lanes, f.atOnce, f.mutants, f.out
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
	return p
}

// save writes the files that were asked for.
func (f flags) save(r programme.Report) error {
	var errs []error
	for _, file := range strings.Split(f.report, ",") {
		if file != "" {
			errs = append(errs, r.Write(file))
		}
	}
	if f.notes != "" {
		errs = append(errs, r.Figures(f.notes))
	}
	if f.json != "" {
		text, err := json.MarshalIndent(r, "", " ")
		if err == nil {
			err = os.WriteFile(filepath.Clean(f.json), append(text, '\n'), 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// progress writes a line for each event, on standard error.
func progress(began time.Time) func(programme.Event) {
	return func(e programme.Event) {
		mark := "   "
		if e.Bad != "" {
			mark, e.Text = "BAD", e.Bad
		}
		fmt.Fprintf(os.Stderr, "%7s %s %-9s %5s  %s\n", programme.Short(time.Since(began)), mark, e.Part, e.Progress(), e.Text)
	}
}

func replay(ctx context.Context, file string) error {
	r, err := programme.Replay(ctx, file)
	if err != nil {
		return err
	}
	return r.Print(os.Stdout)
}
