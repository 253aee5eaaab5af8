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

// guardFlags are the flags of every verb that runs a command under a lease.
type guardFlags struct {
	TTL              span         `name:"ttl" default:"15s" placeholder:"D" help:"TTL of the lease, 100ms to 24h; it is renewed every third of it. If this machine dies the resource is free after at most the TTL. Default: ${default}."`
	Timeout          span         `placeholder:"D" help:"End CMD after D, with exit code 124. Default: no limit."`
	KillAfter        span         `default:"10s" placeholder:"D" help:"KILL what still runs D after the first signal; sooner if the lease would end before. Default: ${default}."`
	Signal           signalFlag   `short:"s" default:"TERM" placeholder:"SIG" help:"Signal that ends CMD when --timeout is hit. Default: ${default}."`
	ConflictExitCode int          `short:"E" default:"75" placeholder:"N" help:"Exit code when the lease is not acquired. Default: ${default}."`
	OnLost           guard.OnLost `default:"kill" enum:"kill,warn" placeholder:"WHAT" help:"When the lease is lost: kill ends CMD in time, warn lets it run on. Default: ${default}."`
	Quiet            bool         `short:"q" xor:"volume" help:"Say nothing; the exit code tells."`
	Verbose          bool         `short:"v" xor:"volume" help:"Say more."`
	JSON             bool         `help:"Report events on standard error, one JSON object a line."`
}

// check looks at what the flags' types cannot.
func (f *guardFlags) check(wait *span) error {
	switch {
	case wait != nil && *wait < 0, f.Timeout < 0, f.KillAfter < 0:
		return errors.New("a duration is negative: use 0 or more")
	case f.ConflictExitCode < 0 || f.ConflictExitCode > 255:
		return errors.New("-E needs an exit code from 0 to 255")
	}
	return nil
}

// guarded is a command that runs under a lease. The wait for the lease is in
// await.go, the command's life under it in supervise.go.
type guarded struct {
	guardFlags
	verb     string
	Resource text
	Cmd      []text
	Nonblock bool
	Wait     *span
	lock     lock
}

// lock is how to get the lease.
type lock struct {
	wait func(ctx context.Context) (*holdfast.Lease, error)
	// try asks once and does not queue. Without it the first try only looks.
	try func(ctx context.Context) (*holdfast.Lease, error)
	// resource names what will be locked, if only the store knows that.
	resource func(ctx context.Context) (string, error)
	// giveBack takes the place of Release, if it is set. It is told how the
	// command ended.
	giveBack func(lease *holdfast.Lease, result error, say *reporter)
}

// run takes the lease, runs the command under it and gives the lease back; and
// all that again as long as again says so.
func (c *guarded) run(e *env, on func(*session) lock, again func(*watching) bool) error {
	say := newReporter(e.stderr, c)
	path, err := find(string(c.Cmd[0]))
	if err != nil {
		return say.failure("not-started", explain(err, ""))
	}
	watch := &renewals{moved: make(chan holdfast.RenewEvent, 1)}
	s, err := e.open(holdfast.WithName(c.name()), holdfast.WithHooks(watch))
	if err != nil {
		return say.failure("error", explain(err, ""))
	}
	defer s.close()
	sigs, stop := catchSignals()
	defer stop()
	c.lock = on(s)
	for first := c.firstTry; ; first = c.noTry {
		lease, err := c.acquire(s, sigs, say, first)
		if err != nil {
			if errors.Is(err, errDone) {
				say.notice("done-before", nil, "%q was done before: nothing to do", c.Resource)
				return nil
			}
			var busy *busyError
			if errors.As(err, &busy) {
				return say.failure("busy", &busy.exitError, heldAttrs(busy.held)...)
			}
			return say.failure("not-acquired", explain(err, s.at))
		}
		w, err := c.supervise(path, lease, sigs, watch, say)
		once := err != nil || !again(w)
		if err == nil && once {
			err = w.result()
		}
		if c.lock.giveBack != nil {
			c.lock.giveBack(lease, err, say)
		} else {
			c.release(lease, say)
		}
		if once {
			return err
		}
		say.notice("again", nil, "waiting for %q again", c.Resource)
	}
}

// name is what operators see as the holder: the command, not this program.
func (c *guarded) name() string {
	const most = 64 // a program's name, not an essay
	name := []rune("holdfast " + c.verb + " " + filepath.Base(string(c.Cmd[0])))
	return string(name[:min(len(name), most)])
}

// release gives the lease back after the group has ended.
func (c *guarded) release(lease *holdfast.Lease, say *reporter) {
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
