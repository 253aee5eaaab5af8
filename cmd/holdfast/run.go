package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
)

// runCmd is `holdfast run`: its flags. The wait for the lease is in acquire.go,
// the command's life under it in supervise.go.
type runCmd struct {
	Resource text   `arg:"" help:"Name of what is locked, like stock:42."`
	Cmd      []text `arg:"" name:"cmd" help:"Command and its arguments, after --."`

	Nonblock         bool         `short:"n" xor:"wait" help:"Do not wait: exit 75 if the resource is held."`
	Wait             *span        `short:"w" xor:"wait" placeholder:"D" help:"Wait at most D, like 30s, then exit 75. Default: wait for as long as it takes."`
	TTL              span         `name:"ttl" default:"15s" placeholder:"D" help:"TTL of the lease, 100ms to 24h; it is renewed every third of it. If this machine dies the resource is free after at most the TTL. Default: ${default}."`
	Timeout          span         `placeholder:"D" help:"End CMD after D, with exit code 124. Default: no limit."`
	KillAfter        span         `default:"10s" placeholder:"D" help:"KILL what still runs D after the first signal; sooner if the lease would end before. Default: ${default}."`
	Signal           signalFlag   `short:"s" default:"TERM" placeholder:"SIG" help:"Signal that ends CMD when --timeout is hit. Default: ${default}."`
	ConflictExitCode int          `short:"E" default:"75" placeholder:"N" help:"Exit code when the lease is not acquired. Default: ${default}."`
	Reason           text         `placeholder:"TEXT" help:"Why; shown to others who look or wait. Default: none."`
	OnLost           guard.OnLost `default:"kill" enum:"kill,warn" placeholder:"WHAT" help:"When the lease is lost: kill ends CMD in time, warn lets it run on. Default: ${default}."`
	Quiet            bool         `short:"q" xor:"volume" help:"Say nothing; the exit code tells."`
	Verbose          bool         `short:"v" xor:"volume" help:"Say more."`
	JSON             bool         `help:"Report events on standard error, one JSON object a line."`
}

// Help is the long text of --help.
func (*runCmd) Help() string {
	return `CMD runs in a process group of its own while holdfast holds and renews the lease. INT, TERM, HUP,
QUIT, USR1 and USR2 are passed on to the group. The lease is given back when the whole group has ended,
background processes included; a program that must not count leaves the group with setsid.
If the lease cannot be renewed, the group gets TERM and then KILL in time before anybody else can get the
resource, also when holdfast itself is killed or stopped. That begins when a third of the TTL is left: a
longer --ttl rides out longer outages of the store. CMD finds HOLDFAST_RESOURCE, HOLDFAST_TOKEN (the
fencing token: give it along with every write), HOLDFAST_HOLDER and HOLDFAST_TTL_MS in its environment.

Exit codes: CMD's own, or
	 75  not acquired: held and -n, or -w ran out   (-E N: N instead)
	 79  the lease was lost and CMD was stopped in time
	124  --timeout was hit      137  and KILL was needed
	128+N  CMD died of signal N, or a wait was ended by it
	125  holdfast failed        126  CMD cannot be executed     127  CMD not found
	 64  usage     69  store unreachable     77  store refuses user or rights     78  bad configuration

Examples:
	holdfast run nightly-report -- ./report.sh --full
	holdfast run -n cache-warmup -- ./warm.sh || echo "somebody else is at it"
	holdfast run -w 5m --reason "release 4.2" deploy:prod -- sh -c 'build && ship'
	holdfast run --ttl 5s --timeout 1h -s INT import -- ./import < data.csv`
}

// Validate checks what the flags' types cannot.
func (c *runCmd) Validate() error {
	switch {
	case len(c.Cmd) == 0:
		return nil // kong says so itself, after this
	case c.Cmd[0] == "":
		return errors.New("CMD is empty: name a program after --")
	case c.Wait != nil && *c.Wait < 0, c.Timeout < 0, c.KillAfter < 0:
		return errors.New("a duration is negative: use 0 or more")
	case c.ConflictExitCode < 0 || c.ConflictExitCode > 255:
		return errors.New("-E needs an exit code from 0 to 255")
	}
	return nil
}

// Run takes the lease, runs the command under it and gives the lease back.
func (c *runCmd) Run(e *env) error {
	say := newReporter(e.stderr, c)
	path, err := find(string(c.Cmd[0]))
	if err != nil {
		return say.failure("not-started", explain(err, ""))
	}
	watch := &renewals{moved: make(chan holdfast.Renew, 1)}
	s, err := e.open(holdfast.WithName(c.name()), holdfast.WithHooks(watch))
	if err != nil {
		return say.failure("error", explain(err, ""))
	}
	defer s.close()
	sigs, stop := catchSignals()
	defer stop()
	lease, err := c.acquire(s, sigs, say)
	if err != nil {
		var busy *busyError
		if errors.As(err, &busy) {
			return say.failure("busy", &busy.exitError, heldAttrs(busy.held)...)
		}
		return say.failure("not-acquired", explain(err, s.at))
	}
	err = c.supervise(path, lease, sigs, watch, say)
	c.release(lease, say)
	return err
}

// name is what operators see as the holder: the command, not this program.
func (c *runCmd) name() string {
	const most = 64 // a program's name, not an essay
	name := []rune("holdfast run " + filepath.Base(string(c.Cmd[0])))
	return string(name[:min(len(name), most)])
}

// release gives the lease back after the group has ended.
func (c *runCmd) release(lease *holdfast.Lease, say *reporter) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	err := lease.Release(ctx)
	switch {
	case err == nil:
		say.detail("released", nil, "released %q", c.Resource)
	case errors.Is(err, holdfast.ErrLost):
		// supervise has told it, or the loss came when nothing ran any more.
		say.detail("lost-after-end", []slog.Attr{slog.String("message", err.Error())}, "%v", err)
	default:
		say.notice("release-unconfirmed", []slog.Attr{slog.String("message", err.Error())},
			"the store did not confirm the release of %q; it is free in %s at the latest", c.Resource, short(time.Duration(c.TTL)))
	}
}

// find looks the program up before anything is locked for it.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil // the user's own PATH says so
	}
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "", fail(exitNotFound, "command %q not found: check the spelling and PATH", name)
	}
	return "", notExecutable(name, err)
}

func notExecutable(name string, err error) error {
	hint := "check that it is a program and that you may execute it (chmod +x)"
	if errors.Is(err, syscall.ENOEXEC) {
		hint = "a script needs a first line such as #!/bin/sh"
	}
	var pe *exec.Error
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fail(exitNotExec, "command %q cannot be executed: %v: %s", name, err, hint)
}
