package command

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
	TTL              span         `name:"ttl" default:"15s" placeholder:"D" help:"TTL of the lease, 100ms to 24h; it is renewed every TTL/3. If this machine dies, the resource becomes free within the TTL. Default: ${default}."`
	Timeout          span         `placeholder:"D" help:"End CMD after D, with exit code 124. Default: no limit."`
	KillAfter        *span        `placeholder:"D" help:"Send KILL to what still runs D after the signal of --timeout or of a lost lease; sooner if the lease would end before. If given, it also applies after a forwarded TERM. Default: 10s."`
	Signal           signalFlag   `short:"s" default:"TERM" placeholder:"SIG" help:"Signal that ends CMD when --timeout is hit. Default: ${default}."`
	ConflictExitCode int          `short:"E" default:"75" placeholder:"N" help:"Exit code when the lease is not acquired. Default: ${default}."`
	OnLost           guard.OnLost `default:"kill" enum:"kill,warn" placeholder:"WHAT" help:"When the lease is lost: kill ends CMD in time, warn lets it continue. Default: ${default}."`
	PassEnv          bool         `help:"Leave the password of HOLDFAST_STORE in the environment of CMD. Default: CMD gets the URL without user and password."`
	Quiet            bool         `short:"q" xor:"volume" help:"Print nothing; use the exit code."`
	Verbose          bool         `short:"v" xor:"volume" help:"Print more."`
	JSON             bool         `help:"Report events on standard error, one JSON object per line."`
	MetricsFile      string       `placeholder:"FILE" help:"Write metrics for Prometheus to FILE, for the textfile collector of node_exporter: at the beginning, every 15s and at the end. Default: none."`
	logFlag
}

// logFlag is the flag of every verb that waits for a lease.
type logFlag struct {
	LogFile string `placeholder:"FILE" help:"Append the messages of holdfast to FILE, with time and PID, in place of standard error. Default: none."`
}

// check checks what the flags' types cannot.
func (f *guardFlags) check(wait *span) error {
	switch {
	case wait != nil && *wait < 0, f.Timeout < 0, f.KillAfter != nil && *f.KillAfter < 0:
		return errors.New("a duration is negative: use 0 or more")
	case f.ConflictExitCode < 0 || f.ConflictExitCode > 255:
		return errors.New("-E needs an exit code from 0 to 255")
	}
	return nil
}

// killAfter is the time between the first signal and KILL.
func (f *guardFlags) killAfter() time.Duration {
	if f.KillAfter != nil {
		return time.Duration(*f.KillAfter)
	}
	return defaultKillAfter
}

// defaultKillAfter does not apply to a signal that is passed on: a service that
// gets TERM may need more time.
const defaultKillAfter = 10 * time.Second

// guarded is a command that runs under a lease. The wait for the lease is in
// guarded_acquire.go, the command's life under it in supervise.go.
type guarded struct {
	guardFlags
	verb     string
	Resource text     // for messages, if there are several names
	names    []string // if there are several
	weight   int
	shared   bool // --shared
	Cmd      []text
	Nonblock bool
	Wait     *span
	lock     lock
	job      *guard.ShellJob
	ahead    *guardAhead // until the first try has failed, or the command is started
	shown    string      // holder that the first try has reported
	// noWaiters is set by the first try if the store does not show waiters.
	noWaiters bool
	// skippedExitCode is the exit code if the work was done before.
	skippedExitCode int
}

// lock is a way to acquire the lease.
type lock struct {
	wait func(ctx context.Context) (*holdfast.Lease, error)
	// try acquires without queueing. If it is nil, the first try only reads the state.
	try func(ctx context.Context) (*holdfast.Lease, error)
	// resource reads the name of the resource from the store, if it depends on the store.
	resource func(ctx context.Context) (string, error)
	// remark returns a message about the lease, or "". It may be nil.
	remark func() string
	// release replaces Lease.Release, if it is set. result is how the command ended.
	release func(lease *holdfast.Lease, result error, say *reporter)
}

// run acquires the lease, runs the command under it and releases the lease, and
// repeats this while again returns true.
func (c *guarded) run(e *env, on func(*session) lock, again func(*supervision) bool) (result error) {
	if e.ahead == nil && e.job == nil && guard.OnTerminal() {
		return asClient(e)
	}
	defer e.job.Continue()
	c.job, c.ahead, e.ahead = e.job, e.ahead, nil
	if c.ahead == nil && c.verb == "run" && !c.Nonblock {
		c.ahead = startGuard() // the arguments begin with another flag
	}
	defer func() { c.ahead.drop() }()
	say, err := openReporter(e.stderr, c)
	if err != nil {
		return err
	}
	defer say.close()
	measured, err := c.startMetrics()
	if err != nil {
		return say.failure("error", explain(err, nil))
	}
	defer func() { measured.end(result, say) }()
	path, err := find(string(c.Cmd[0]))
	if err != nil {
		return say.failure("not-started", explain(err, nil))
	}
	watch := &renewals{moved: make(chan holdfast.RenewEvent, 1)}
	s, err := e.open(holdfast.WithName(c.name()), holdfast.WithHooks(watch, measured))
	if err != nil {
		return say.failure("error", explain(err, nil))
	}
	defer s.close()
	// Signals are caught until the program ends: one that arrives late, after CMD has ended, would replace CMD's exit code.
	sigs, _ := catchSignals()
	c.lock = on(s)
	for first := c.firstTry; ; first = c.skipFirstTry {
		began := time.Now()
		lease, err := c.acquire(s, sigs, say, first)
		if err != nil {
			if errors.Is(err, errDone) {
				say.detail("done-before", []slog.Attr{slog.Int("code", c.skippedExitCode)}, "%q was done before: nothing to do", c.Resource)
				return &exitError{code: c.skippedExitCode}
			}
			return c.refused(say, "not-acquired", s, err)
		}
		measured.acquire(time.Since(began))
		w, err := c.supervise(path, lease, sigs, watch, say)
		once := err != nil || !again(w)
		if err == nil && once {
			err = w.result()
		}
		if c.lock.release != nil {
			c.lock.release(lease, err, say)
		} else {
			c.release(lease, say)
		}
		measured.release()
		if once {
			return err
		}
		say.notice("again", nil, "waiting for %q again", c.Resource)
	}
}

// resources returns the names of what is locked.
func (c *guarded) resources() []string {
	if c.names != nil {
		return c.names
	}
	return []string{string(c.Resource)}
}

// asClient runs this program again as a client that does the work, since this process
// is a member of a job that the terminal may stop.
func asClient(e *env) error {
	if err := e.setStoreFile(); err != nil {
		return fail(exitFailed, "hand on --store-file: %v", err)
	}
	status, err := guard.RunClient(os.Args[1:])
	if err != nil {
		return fail(exitFailed, "start the client process: %v", err)
	}
	exit := &exitError{code: codeOf(status)}
	if status.Signaled() {
		exit.sig = status.Signal()
	}
	return exit
}

// name returns the holder's name: the command, not this program.
func (c *guarded) name() string {
	const most = 64 // long enough for the name of a program
	name := []rune("holdfast " + c.verb + " " + filepath.Base(string(c.Cmd[0])))
	return string(name[:min(len(name), most)])
}

// release releases the lease after the group has ended.
func (c *guarded) release(lease *holdfast.Lease, say *reporter) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	err := lease.Release(ctx)
	switch {
	case err == nil:
		say.detail("released", nil, "released %q", c.Resource)
	case errors.Is(err, holdfast.ErrLost):
		// supervise has reported it, or the lease was lost after the group had ended.
		say.detail("lost-after-end", []slog.Attr{slog.String("message", bare(err))}, "%s", bare(err))
	default:
		say.notice("release-unconfirmed", []slog.Attr{slog.String("message", bare(err))},
			"the store did not confirm the release of %q; it is free in %s at the latest", c.Resource, short(time.Duration(c.TTL)))
	}
}

// find looks up the program before the lease is acquired.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil // PATH contains that folder on purpose
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
	if pe, ok := errors.AsType[*exec.Error](err); ok {
		err = pe.Err
	}
	return fail(exitNotExec, "command %q cannot be executed: %v: %s", name, err, hint)
}
