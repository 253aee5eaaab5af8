package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/programme"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// tortureCmd is `holdfast torture`. What it plays is the lab's.
type tortureCmd struct {
	Run    tortureRunCmd    `cmd:"" default:"withargs" help:"Play the lab."`
	Replay tortureReplayCmd `cmd:"" help:"Play a failure again."`
}

// Help is the long text of --help.
func (*tortureCmd) Help() string {
	return `Breaks the locks that people copy from articles, each by its own hole, plays the same faults on Holdfast, and then
random ones: workers that are killed and stopped, stores that are killed, stopped and restarted with and without
their data, connections that are cut, held up or lose replies; and schedules in virtual time. What happened is judged from
the recorded history alone. Exit code 0 means that Holdfast held and that every hole of the others showed.

Without --redis it starts redis-servers of its own. With --redis redis://HOST:PORT (three or five of them with commas
are a quorum) workers and connections suffer, and the store does not: nothing is flushed, and all keys are below
prefixes of its own that are deleted at the end. What needs to stop or empty a store is left out, and said to be.

Other libraries, and your own lock, are played by the lab's own program: see lab/README.md in the source.

Examples:
	holdfast torture --minutes 2
	holdfast torture --subject redsync,holdfast-quorum --report torture.html
	holdfast --redis redis://127.0.0.1:6379 torture --minutes 1
	holdfast torture replay lab-live-holdfast-7.json`
}

// tortureRunCmd plays.
type tortureRunCmd struct {
	Subject []string `placeholder:"ID" help:"Locks to play, with commas; see the table of lab/README.md. Default: all."`
	Minutes float64  `default:"2" help:"How long about; each scenario is played once in any case. Default: ${default}."`
	Seed    uint64   `default:"1" help:"The first of the random runs. Default: ${default}."`
	Report  string   `placeholder:"FILE" help:"Write the report, as HTML if the name ends in .html, else as Markdown."`
	Out     string   `placeholder:"DIR" help:"Where replay files of failures are left. Default: the system's folder for temporary files."`
	JSON    bool     `help:"Print the report as JSON; progress goes to standard error."`
}

// Run plays the lab.
func (c *tortureRunCmd) Run(e *env) error {
	plan := programme.Brief(subject.All(), time.Duration(c.Minutes*float64(time.Minute)), c.Subject...)
	plan.Seed, plan.Out = c.Seed, c.Out
	for _, id := range c.Subject {
		if _, err := plan.Catalog.Find(id); err != nil {
			return fail(exitUsage, "%v", err)
		}
	}
	if err := c.on(e, &plan); err != nil {
		return err
	}
	out := e.stdout
	if c.JSON {
		out = e.stderr
	}
	plan.Heard = tortureProgress(out)
	sigs, stop := catchSignals()
	defer stop()
	ctx, end := endBySignal(sigs)
	r := plan.Play(ctx)
	end()
	if sig := signalOf(ctx); sig != nil {
		return sig
	}
	return c.verdict(e, r)
}

// on takes the stores of --redis in place of the lab's own.
func (c *tortureRunCmd) on(e *env, plan *programme.Plan) error {
	if !e.urlGiven {
		return nil
	}
	urls := strings.Split(e.url, ",")
	for _, u := range urls {
		if !strings.HasPrefix(u, "redis://") {
			return fail(exitConfig, "torture plays on redis:// URLs only, and puts proxies of its own before them")
		}
	}
	subject := "holdfast"
	if len(urls) > 1 {
		subject = "holdfast-quorum"
	}
	if len(c.Subject) == 0 {
		plan.Live = slices.DeleteFunc(plan.Live, func(l programme.Live) bool { return l.Subject != subject })
		for i := range plan.Live {
			plan.Live[i].For = time.Duration(c.Minutes * float64(time.Minute) * 3 / 4)
		}
	}
	plan.On = urls
	fmt.Fprintf(e.stderr, "holdfast: the stores are those of --redis: nothing is flushed and no store is stopped; keys are written below prefixes that begin with \"lab-\" and are deleted after each run. The scenarios and the faults of stores are left out.\n")
	return nil
}

// verdict prints the table and ends with 1 unless all was as it should be.
func (c *tortureRunCmd) verdict(e *env, r programme.Report) error {
	r.Command = "holdfast torture"
	var err error
	if c.JSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", " ")
		err = enc.Encode(r)
	} else {
		fmt.Fprintln(e.stdout)
		err = r.Table(e.stdout)
	}
	if err == nil && c.Report != "" {
		if err = r.Write(c.Report); err != nil {
			err = fail(exitFailed, "the report: %v", err)
		}
	}
	if bad := r.Err(); bad != nil {
		return fail(exitNo, "%v", errors.Join(bad, err))
	}
	return err
}

// tortureProgress writes a line for each event.
func tortureProgress(w io.Writer) func(programme.Event) {
	began := time.Now()
	return func(ev programme.Event) {
		mark := "  "
		if ev.Bad != "" {
			mark, ev.Text = "! ", ev.Bad
		}
		fmt.Fprintf(w, "%7s %s%-9s %7s  %s\n", programme.Short(time.Since(began)), mark, ev.Part, ev.Progress(), ev.Text)
	}
}

// tortureReplayCmd plays a failure again.
type tortureReplayCmd struct {
	File string `arg:"" help:"A replay file, as torture leaves it."`
}

// Run plays it until it fails again, or some times.
func (c *tortureReplayCmd) Run(e *env) error {
	sigs, stop := catchSignals()
	defer stop()
	ctx, end := endBySignal(sigs)
	defer end()
	r, err := programme.Replay(ctx, c.File)
	if sig := signalOf(ctx); sig != nil {
		return sig
	}
	if err != nil {
		return fail(exitFailed, "%v", err)
	}
	if err := r.Print(e.stdout); errors.Is(err, programme.ErrBroke) {
		return fail(exitNo, "%v", err)
	} else if err != nil {
		return err
	}
	return nil
}
