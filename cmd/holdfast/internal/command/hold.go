package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
)

// holdCmd is `holdfast hold`.
type holdCmd struct {
	Resource text `arg:"" help:"Name of the resource to lock, such as stock:42."`

	lockFlags
	TTL              span `name:"ttl" default:"15s" placeholder:"D" help:"TTL of the lease, 100ms to 24h; it is renewed every TTL/3. If this machine dies, the resource becomes free within the TTL. Default: ${default}."`
	ConflictExitCode int  `short:"E" default:"75" placeholder:"N" help:"Exit code when the lease is not acquired. Default: ${default}."`
	Quiet            bool `short:"q" xor:"volume" help:"Print nothing on standard error; use the exit code."`
	Verbose          bool `short:"v" xor:"volume" help:"Print more."`
	JSON             bool `help:"Print the line on standard output, and report events on standard error, as JSON objects."`
	logFlag
}

// Help is the long text of --help.
func (*holdCmd) Help() string {
	return `Acquires the lease of a resource, holds and renews it until standard input ends or a signal arrives, and then
releases it. When it holds the lease it prints one line with the fencing token on standard output. It is for
programs that start it as a helper: they close its input to release the lease, or to end the wait for it. Without an
input (</dev/null, or a service without one) it warns and ends at once.

Exit codes: 0 when standard input ended and the lease was released, or
	 75  not acquired: held and -n, or -w ran out, or standard input ended   (-E N: N instead)
	 79  the lease was lost     128+N  ended by signal N, after the lease was released
	 64  usage     69  store unreachable     77  store refuses user or rights     78  bad configuration

Examples:
	holdfast hold deploy:prod                        # until ^D or ^C
	coproc holdfast hold --json stock:42; read -r held <&"${COPROC[0]}"; …; exec {COPROC[1]}>&-`
}

// Validate checks what the flags' types cannot.
func (c *holdCmd) Validate() error {
	flags := guardFlags{ConflictExitCode: c.ConflictExitCode}
	return errors.Join(c.checkSlots(), flags.check(c.Wait))
}

// Run holds the lease.
func (c *holdCmd) Run(e *env) error {
	g := &guarded{verb: "hold", Resource: c.Resource, Nonblock: c.Nonblock, Wait: c.Wait, weight: c.weight(), shared: c.Shared}
	g.TTL, g.ConflictExitCode, g.Quiet, g.Verbose, g.JSON = c.TTL, c.ConflictExitCode, c.Quiet, c.Verbose, c.JSON
	g.logFlag = c.logFlag
	say, err := openReporter(e.stderr, g)
	if err != nil {
		return err
	}
	defer say.close()
	s, err := e.open(holdfast.WithName("holdfast hold"))
	if err != nil {
		return say.failure("error", explain(err, nil))
	}
	defer s.close()
	sigs, stop := catchSignals()
	defer stop()
	if isNull(os.Stdin) {
		say.notice("no-input", nil, "standard input is %s, so the lease is released at once: leave it open, or use holdfast run", os.DevNull)
	}
	input := inputEnd()
	g.lock = c.lockFlags.on(s, []string{string(c.Resource)}, time.Duration(c.TTL))
	g.lock.wait = c.waitUntil(input, g.lock.wait)
	lease, err := g.acquire(s, sigs, say, g.firstTry)
	if err != nil {
		return g.refused(say, "not-acquired", s, err)
	}
	err = c.tell(e, lease)
	if err == nil {
		err = c.until(input, lease, sigs, say)
	}
	g.release(lease, say)
	return err
}

// tell prints on standard output that the lease is held.
func (c *holdCmd) tell(e *env, lease *holdfast.Lease) error {
	if c.JSON {
		return writeJSON(e.stdout, jsonLease(lease, time.Duration(c.TTL)))
	}
	_, err := fmt.Fprintf(e.stdout, "held: %q, token %d, holder ID %s\n", c.Resource, lease.Token(), lease.HolderID())
	return err
}

// isNull reports whether f is the null device, as it is when the file was closed at the start.
func isNull(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

// inputEnd returns a channel that is closed at the end of standard input.
func inputEnd() <-chan struct{} {
	end := make(chan struct{})
	go func() { // ends with standard input, or with the program
		defer close(end)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return end
}

// waitUntil returns wait with an end: that of standard input.
func (c *holdCmd) waitUntil(input <-chan struct{}, wait func(context.Context) (*holdfast.Lease, error)) func(context.Context) (*holdfast.Lease, error) {
	return func(ctx context.Context) (*holdfast.Lease, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		ended := fail(c.ConflictExitCode, "not acquired: standard input ended during the wait for %q", c.Resource)
		go func() {
			select {
			case <-input:
				cancel(ended)
			case <-ctx.Done():
			}
		}()
		lease, err := wait(ctx)
		if err != nil && context.Cause(ctx) == ended {
			return nil, ended
		}
		return lease, err
	}
}

// until waits for the end of standard input, a signal or the loss of the lease.
func (c *holdCmd) until(input <-chan struct{}, lease *holdfast.Lease, sigs <-chan os.Signal, say *reporter) error {
	select {
	case <-input:
		return nil
	case sig := <-sigs:
		return say.failure("signal", explain(&signalled{sig.(syscall.Signal)}, nil))
	case <-lease.Done():
		text := bare(lease.Err())
		attrs := append(lossAttrs(lease.Err()), slog.Uint64("token", lease.Token()))
		return say.failure("lost", &exitError{code: exitLost, text: text}, attrs...)
	}
}
