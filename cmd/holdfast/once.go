package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast"
)

// defaultKeep is how long an ID stays done.
const defaultKeep = 24 * time.Hour

// onceCmd is `holdfast once`.
type onceCmd struct {
	ID  text   `arg:"" name:"id" help:"What is done once, like order-4711; with --every or --cron the job's name."`
	Cmd []text `arg:"" name:"cmd" help:"Command and its arguments, after --."`

	Every *span `xor:"period" placeholder:"D" help:"Once in each period of D, 100ms to 8784h: hours and days begin on the hour and at midnight UTC, weeks on Monday."`
	Cron  *text `xor:"period" placeholder:"EXPR" help:"Once for each time that EXPR is due, in UTC: \"minute hour day month weekday\", or @hourly, @daily, @weekly, @monthly."`
	Retry bool  `help:"With --every or --cron: if CMD failed or its machine died, the next to come runs it again in the same period. An ID alone is always retried."`
	Keep  *span `placeholder:"D" help:"How long it stays done, 100ms or more. Default: 24h for an ID; two periods and at least 10m with --every or --cron."`
	Wait  *span `short:"w" placeholder:"D" help:"While another one runs it, wait at most D, like 30s, then exit 75. Default: for as long as it takes."`

	guardFlags
}

// Help is the long text of --help.
func (*onceCmd) Help() string {
	return `CMD runs as under "holdfast run", unless it was done before; then holdfast says so and ends with exit code 0.
Done means that CMD ended with exit code 0 while the lease was held, and that the store has noted it. While
another one runs it, holdfast waits, and then finds it done or runs CMD itself.

With --every or --cron it is done once in each period, on however many machines the same line stands in
crontab; the period is that of the store's clock. There CMD is started at most once in a period, whatever
becomes of it, and those who come meanwhile find it done; with --retry a failed one is run again by the next.
CMD finds the resource, its name with the period's beginning, in HOLDFAST_RESOURCE.
To make it open again: holdfast break RESOURCE mark

Exit codes: CMD's own, 0 if it was done before, and those of "holdfast run".

Examples:
	holdfast once order-4711 -- ./send-invoice.sh 4711
	holdfast once --keep 720h migration-12 -- ./migrate.sh
	holdfast once --every 24h nightly-report -- ./report.sh
	holdfast once --retry --cron '0 8 * * 1-5' push-report -- ./push.sh`
}

// Validate checks what the flags' types cannot.
func (c *onceCmd) Validate() error {
	switch {
	case len(c.Cmd) == 0:
		return nil // kong says so itself, after this
	case c.Cmd[0] == "":
		return errors.New("CMD is empty: name a program after --")
	case c.Retry && c.Every == nil && c.Cron == nil:
		return errors.New("--retry goes with --every or --cron; an ID alone is always retried")
	case c.Keep != nil && (time.Duration(*c.Keep) < holdfast.MinPeriod || time.Duration(*c.Keep) > holdfast.MaxKeep):
		return fmt.Errorf("--keep needs a duration from %v to %v", holdfast.MinPeriod, holdfast.MaxKeep)
	}
	return c.check(c.Wait)
}

// Run runs the command if it is still to be done.
func (c *onceCmd) Run(e *env) error {
	g := &guarded{guardFlags: c.guardFlags, verb: "once", Resource: c.ID, Cmd: c.Cmd, Wait: c.Wait}
	t := &turn{guarded: g, leases: make(chan *holdfast.Lease), result: make(chan error), ended: make(chan outcome, 1)}
	return g.run(e, func(s *session) lock {
		t.job = s.Job(string(c.ID), c.options()...)
		return lock{wait: t.wait, resource: t.job.Resource, giveBack: t.giveBack}
	}, func(*watching) bool { return false })
}

func (c *onceCmd) options() []holdfast.JobOption {
	opts := []holdfast.JobOption{holdfast.WithTTL(time.Duration(c.TTL))}
	keep := c.Keep
	switch {
	case c.Every != nil:
		opts = append(opts, holdfast.Every(time.Duration(*c.Every)))
	case c.Cron != nil:
		opts = append(opts, holdfast.Cron(string(*c.Cron)))
	case keep == nil:
		day := span(defaultKeep)
		keep = &day
	}
	if keep != nil {
		opts = append(opts, holdfast.AtLeast(time.Duration(*keep)))
	}
	if c.Retry || c.Every == nil && c.Cron == nil {
		opts = append(opts, holdfast.RetryFailed())
	}
	return opts
}

// errDone ends the wait for what was done before.
var errDone = errors.New("it was done before")

// errNotDone is what the job is told of a command that failed.
var errNotDone = errors.New("the command did not succeed")

// outcome is what Job.Run returned.
type outcome struct {
	ran bool
	err error
}

// turn is a run of the job. Job.Run runs beside the guarded command: it hands its
// lease over and waits to be told how the command ended.
type turn struct {
	*guarded
	job    *holdfast.Job
	leases chan *holdfast.Lease
	result chan error
	ended  chan outcome
}

// wait waits for the lease, or learns that there is nothing to do.
func (t *turn) wait(ctx context.Context) (*holdfast.Lease, error) {
	// ctx is that of the wait; the run has no limit but its lease.
	run, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	go func() {
		ran, err := t.job.Run(run, func(ctx context.Context) error {
			t.leases <- holdfast.LeaseFromContext(ctx)
			return <-t.result
		})
		t.ended <- outcome{ran, err}
	}()
	select {
	case lease := <-t.leases:
		stop()
		for name := range lease.Tokens() {
			t.Resource = text(name) // with the period
		}
		return lease, nil
	case end := <-t.ended:
		stop()
		if end.err == nil {
			return nil, errDone
		}
		return nil, end.err
	}
}

// giveBack says how the command ended, and sees that the store has noted it.
func (t *turn) giveBack(_ *holdfast.Lease, result error, say *reporter) {
	done := error(nil)
	if result != nil && explain(result, "").code != exitOK {
		done = errNotDone
	}
	t.result <- done
	end := <-t.ended
	attrs := []slog.Attr{}
	if end.err != nil {
		attrs = append(attrs, slog.String("message", end.err.Error()))
	}
	switch {
	case end.err == nil:
		say.detail("done", nil, "%q is done", t.Resource)
	case done != nil:
		say.detail("not-done", attrs, "%q is not done", t.Resource)
	default:
		say.notice("done-unconfirmed", attrs,
			"%s succeeded, but the store did not confirm that %q is done, so it may be run again: %v", t.Cmd[0], t.Resource, end.err)
	}
}
