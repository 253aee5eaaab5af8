package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	_ "time/tzdata" // for --tz where the system has no zones

	"github.com/holdfast-go/holdfast"
)

// defaultKeep is how long an ID stays marked as done.
const defaultKeep = 24 * time.Hour

// onceCmd is `holdfast once`.
type onceCmd struct {
	ID  text   `arg:"" name:"id" help:"ID of the work, such as order-4711; with --every or --cron the job's name."`
	Cmd []text `arg:"" name:"cmd" help:"Command and its arguments, after --."`

	Every *span `xor:"period" placeholder:"D" help:"Once in each period of D, 100ms to 8784h: hours and days begin on the hour and at midnight UTC, weeks on Monday."`
	Cron  *text `xor:"period" placeholder:"EXPR" help:"Once for each time that EXPR is due, in UTC or --tz: \"minute hour day month weekday\", or @hourly, @daily, @weekly, @monthly."`
	Slack *span `placeholder:"D" help:"With --every or --cron: a start within D before the next period counts for that period, since the clock of this machine may be ahead of the store's. Default: a tenth of the period, at most 10s."`
	TZ    *text `name:"tz" placeholder:"ZONE" help:"With --cron: EXPR is in the time of ZONE, such as Europe/Berlin or Local. Every machine must use the same. Default: UTC."`
	Retry bool  `help:"With --every or --cron: if CMD failed or its machine died, the next holdfast once runs it again in the same period. An ID alone is always retried."`
	Keep  *span `placeholder:"D" help:"How long it remains done, 100ms or more. Default: 24h for an ID; two periods and at least 10m with --every or --cron."`
	Wait  *span `short:"w" placeholder:"D" help:"While another process runs it, wait at most D, such as 30s, then exit 75. Default: no limit."`

	SkippedExitCode int `default:"0" placeholder:"N" help:"Exit code when it was done before. Default: ${default}."`

	guardFlags
}

// Help is the long text of --help.
func (*onceCmd) Help() string {
	return `CMD runs as under "holdfast run", unless it was done before; then holdfast exits silently with code 0, or N
of --skipped-exit-code.
Done means that CMD exited with code 0 while the lease was held, and that the store has recorded it. While
another process runs it, holdfast waits, and then finds it done or runs CMD itself.

With --every or --cron it is done once in each period, even if the same line is in the crontab of several
machines; the store's clock determines the period. CMD is then started at most once in a period, whether or not
it succeeds, and a later holdfast once finds it done; with --retry the next one runs a failed CMD again.
HOLDFAST_RESOURCE of CMD is the name with the period's beginning.
To allow it to run again: holdfast break RESOURCE mark

Exit codes: CMD's own, 0 if it was done before (--skipped-exit-code N: N instead), and those of "holdfast run".

Examples:
	holdfast once order-4711 -- ./send-invoice.sh 4711
	holdfast once --skipped-exit-code 9 order-4711 -- ./send-invoice.sh 4711; [ $? = 9 ] && echo "sent before"
	holdfast once --keep 720h migration-12 -- ./migrate.sh
	holdfast once --every 24h nightly-report -- ./report.sh
	holdfast once --retry --tz Europe/Berlin --cron '0 8 * * 1-5' push-report -- ./push.sh`
}

// Validate checks what the flags' types cannot.
func (c *onceCmd) Validate() error {
	switch {
	case len(c.Cmd) == 0:
		return nil // kong reports it after this
	case c.Cmd[0] == "":
		return errors.New("CMD is empty: put a program after --")
	case c.Retry && c.Every == nil && c.Cron == nil:
		return errors.New("--retry goes with --every or --cron; an ID alone is always retried")
	case c.Slack != nil && (*c.Slack < 0 || c.Every == nil && c.Cron == nil):
		return errors.New("--slack needs a duration of 0 or more, and goes with --every or --cron")
	case c.TZ != nil && c.Cron == nil:
		return errors.New("--tz goes with --cron")
	case c.SkippedExitCode < 0 || c.SkippedExitCode > 255:
		return errors.New("--skipped-exit-code needs an exit code from 0 to 255")
	case c.Keep != nil && (time.Duration(*c.Keep) < holdfast.MinPeriod || time.Duration(*c.Keep) > holdfast.MaxKeep):
		return fmt.Errorf("--keep needs a duration from %v to %v", holdfast.MinPeriod, holdfast.MaxKeep)
	}
	if c.TZ != nil {
		if _, err := time.LoadLocation(string(*c.TZ)); err != nil || *c.TZ == "" {
			return fmt.Errorf("--tz %q is no time zone: use a name such as Europe/Berlin, UTC or Local", *c.TZ)
		}
	}
	return c.check(c.Wait)
}

// Run runs the command if it is still to be done.
func (c *onceCmd) Run(e *env) error {
	g := &guarded{guardFlags: c.guardFlags, verb: "once", Resource: c.ID, Cmd: c.Cmd, Wait: c.Wait, skippedExitCode: c.SkippedExitCode}
	t := &jobRun{guarded: g, leases: make(chan *holdfast.Lease), result: make(chan error), ended: make(chan runResult, 1)}
	return g.run(e, func(s *session) lock {
		t.job = s.Job(string(c.ID), c.options()...)
		return lock{wait: t.start, resource: t.job.Resource, release: t.finish}
	}, func(*supervision) bool { return false })
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
	if c.TZ != nil {
		zone, _ := time.LoadLocation(string(*c.TZ)) // Validate has checked it
		opts = append(opts, holdfast.In(zone))
	}
	if c.Slack != nil {
		opts = append(opts, holdfast.Slack(time.Duration(*c.Slack)))
	}
	if keep != nil {
		opts = append(opts, holdfast.AtLeast(time.Duration(*keep)))
	}
	if c.Retry || c.Every == nil && c.Cron == nil {
		opts = append(opts, holdfast.RetryFailed())
	}
	return opts
}

// errDone ends the wait: the work was done before.
var errDone = errors.New("it was done before")

// errCommandFailed is the result of the job's function if the command failed.
var errCommandFailed = errors.New("the command did not succeed")

// runResult is what Job.Run returned.
type runResult struct {
	ran bool
	err error
}

// jobRun is a call of Job.Run, which runs beside the guarded command: it passes its lease
// to start, and waits in its function for the result of the command.
type jobRun struct {
	*guarded
	job    *holdfast.Job
	leases chan *holdfast.Lease
	result chan error
	ended  chan runResult
}

// start starts the run and waits for its lease. Errors: errDone, and those of Job.Run.
func (t *jobRun) start(ctx context.Context) (*holdfast.Lease, error) {
	// ctx is that of the wait; the run is bounded only by its lease.
	run, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	go func() {
		ran, err := t.job.Run(run, func(ctx context.Context) error {
			t.leases <- holdfast.LeaseFromContext(ctx)
			return <-t.result
		})
		t.ended <- runResult{ran, err}
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

// finish passes the result of the command to the job, and reports whether the store has recorded it.
func (t *jobRun) finish(_ *holdfast.Lease, result error, say *reporter) {
	done := error(nil)
	if result != nil && explain(result, nil).code != exitOK {
		done = errCommandFailed
	}
	t.result <- done
	end := <-t.ended
	attrs := []slog.Attr{}
	if end.err != nil {
		attrs = append(attrs, slog.String("message", bare(end.err)))
	}
	switch {
	case end.err == nil:
		say.detail("done", nil, "%q is done", t.Resource)
	case done != nil:
		say.detail("not-done", attrs, "%q is not done", t.Resource)
	default:
		say.notice("done-unconfirmed", attrs,
			"%s succeeded, but the store did not confirm that %q is done, so it may be run again: %s", t.Cmd[0], t.Resource, bare(end.err))
	}
}
