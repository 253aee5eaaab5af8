package command

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
)

// waitCmd is `holdfast wait`.
type waitCmd struct {
	Resource text `arg:"" help:"Name of the resource."`

	Nonblock         bool  `short:"n" xor:"wait" help:"Check once: exit 0 if it is free, 75 if not."`
	Wait             *span `short:"w" xor:"wait" placeholder:"D" help:"Wait at most D, such as 30s, then exit 75. Default: no limit."`
	ConflictExitCode int   `short:"E" default:"75" placeholder:"N" help:"Exit code when it is not free in time. Default: ${default}."`
	Quiet            bool  `short:"q" xor:"volume" help:"Print nothing; use the exit code."`
	JSON             bool  `help:"Report on standard error as JSON objects."`
}

// Help is the long text of --help.
func (*waitCmd) Help() string {
	return `Waits until the resource has no holders and no waiters. It acquires nothing and does not join the queue: another
process may hold the resource a moment later. To hold it, use holdfast run. It reads the store four times a second,
and reports who holds the resource and for how long it has waited: on a terminal on one line that is drawn each
second, elsewhere once a minute.

Exit codes:
	  0  free     75  not free: -n, or -w ran out   (-E N: N instead)     128+N  signal N ended the wait
	 64  usage     69  store unreachable     77  store refuses user or rights     78  bad configuration

Examples:
	holdfast wait nightly-report && ./read-report.sh
	holdfast wait -n deploy:prod || echo "a deployment is running"`
}

// Validate checks what the flags' types cannot.
func (c *waitCmd) Validate() error {
	flags := guardFlags{ConflictExitCode: c.ConflictExitCode}
	return flags.check(c.Wait)
}

// lookEvery is how often the store is read.
const lookEvery = 250 * time.Millisecond

// Run waits.
func (c *waitCmd) Run(e *env) error {
	g := &guarded{verb: "wait", Resource: c.Resource, Nonblock: c.Nonblock, Wait: c.Wait}
	g.ConflictExitCode, g.Quiet, g.JSON = c.ConflictExitCode, c.Quiet, c.JSON
	say := newReporter(e.stderr, g)
	s, err := e.open(holdfast.WithName("holdfast wait"))
	if err != nil {
		return say.failure("error", explain(err, nil))
	}
	defer s.close()
	err = untilSignal(func(ctx context.Context) error { return c.await(ctx, s, g.progress(s, say, time.Now())) })
	if err != nil {
		return g.refused(say, "not-free", s, err)
	}
	return nil
}

// await reads the store until the resource is free, -w runs out or ctx ends. If the store
// is unavailable at the first read, that is an error. Later outages are not. p reports what is read.
func (c *waitCmd) await(ctx context.Context, s *session, p *progress) error {
	defer p.clear()
	if c.Wait != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*c.Wait))
		defer cancel()
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var held *holdfast.HeldError
	reported := p.start
	for first := true; ; first = false {
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		snap, err := s.Snapshot(ask, string(c.Resource))
		cancel()
		switch {
		case err == nil && len(snap.Holders)+len(snap.Waiters) == 0:
			return nil
		case err == nil:
			held = heldBy(snap)
		case first || !unreachable(err):
			return err
		}
		if c.Nonblock {
			return c.notFree(held)
		}
		switch {
		case first:
			p.say.notice("waiting", heldAttrs(held), "waiting: %s", heldText(held))
		case time.Since(reported) >= p.every():
			reported = time.Now()
			p.report(look{snap, err})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c.notFree(held)
		}
	}
}

// notFree returns the error of a wait that ended before the resource was free.
func (c *waitCmd) notFree(held *holdfast.HeldError) error {
	return &busyError{held: held, exitError: exitError{code: c.ConflictExitCode, text: "not free: " + heldText(held)}}
}
