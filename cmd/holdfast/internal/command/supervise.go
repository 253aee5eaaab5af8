package command

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// leftoverNotice is how long processes that CMD left behind may run before a message says
// that the lease is still held for them.
const leftoverNotice = time.Second

// renewals is the hook that reports renewals.
type renewals struct{ moved chan holdfast.RenewEvent }

// Renew sends the latest renewal. It replaces one that was not received yet.
func (r *renewals) Renew(e holdfast.RenewEvent) {
	for {
		select {
		case r.moved <- e:
			return
		default:
		}
		select {
		case <-r.moved:
		default:
		}
	}
}

// supervision is the state of CMD under the lease. The guard ends the group when the
// deadline comes near. This side sends it renewals, losses, signals and the time limit,
// and reports events. It is used by one goroutine.
type supervision struct {
	c     *guarded
	say   *reporter
	lease *holdfast.Lease
	guard *guard.Guard
	tty   terminal

	failed error // holdfast or the start of CMD failed
	status *syscall.WaitStatus
	cause  guard.StopCause // set: this program stopped the group
	killed bool
	gone   bool
	asked  bool // a signal came that ends a program; HUP often means to read the configuration again
}

// supervise runs the command and returns when the whole group has ended.
func (c *guarded) supervise(path string, lease *holdfast.Lease, sigs <-chan os.Signal, watch *renewals, say *reporter) (*supervision, error) {
	awaitRenewal(lease, watch.moved, time.Duration(c.TTL))
	c.job.AwaitRunning(lease.Done())
	cmd := guard.Command{
		Path: path, Args: stringsOf(c.Cmd), Env: c.environ(lease), TTL: time.Duration(c.TTL),
		KillAfter: c.killAfter(), OnLost: c.OnLost, Nested: len(outerLeases()) > 0,
	}
	c.job.Take(&cmd)
	g, err := c.ahead.take()
	c.ahead = nil
	if err != nil {
		return nil, say.failure("error", explain(err, nil))
	}
	cmd.Deadline = guard.At(lease.Deadline) // read last: the start of the guard takes time, in which the lease may be renewed
	g.Run(cmd)
	w := &supervision{c: c, say: say, lease: lease, guard: g}
	if c.job == nil {
		w.tty = foreground()
	}
	w.loop(sigs, watch.moved)
	w.tty.takeBack()
	return w, nil
}

// awaitRenewal waits for the first renewal of a lease that was granted for the claim
// window only: otherwise the command would be stopped at once.
func awaitRenewal(lease *holdfast.Lease, renewed <-chan holdfast.RenewEvent, ttl time.Duration) {
	for time.Until(lease.Deadline()) < ttl/2 {
		select {
		case <-renewed:
		case <-lease.Done():
			return
		}
	}
}

// environ returns CMD's environment: the inherited variables, then those of the lease.
// Inherited variables of the same names are removed, so that no name occurs twice.
func (c *guarded) environ(lease *holdfast.Lease) []string {
	tokens, _ := json.Marshal(lease.Tokens()) // of strings and numbers
	own := []string{
		"HOLDFAST_RESOURCE=" + c.resources()[0],
		"HOLDFAST_TOKENS=" + string(tokens),
		"HOLDFAST_TOKEN=" + strconv.FormatUint(lease.Token(), 10),
		"HOLDFAST_HOLDER=" + lease.HolderID(),
		"HOLDFAST_TTL_MS=" + strconv.FormatInt(time.Duration(c.TTL).Milliseconds(), 10),
		chainVar + "=" + withOuterLeases(c.resources(), lease),
	}
	// Without a URL a nested holdfast would use the default store, so it gets an invalid URL.
	for _, name := range []string{"HOLDFAST_STORE", "HOLDFAST_REDIS"} {
		if url := os.Getenv(name); url != "" && !c.PassEnv {
			own = append(own, name+"="+store.WithoutPassword(url))
		}
	}
	return mergeEnviron(os.Environ(), own)
}

// loop runs until the group has ended or has failed to start.
func (w *supervision) loop(sigs <-chan os.Signal, renewed <-chan holdfast.RenewEvent) {
	lost, orphaned := w.lease.Done(), w.c.job.Gone()
	var limit, leftover <-chan time.Time
	for {
		select {
		case e, ok := <-w.guard.Events():
			if !ok {
				return
			}
			w.event(e)
			switch {
			case e.Kind == guard.Gone || e.Kind == guard.Failed:
				return
			case e.Kind == guard.Started && w.c.Timeout > 0:
				limit = time.After(time.Duration(w.c.Timeout))
			case e.Kind == guard.Exited:
				leftover = time.After(leftoverNotice)
			}
		case r := <-renewed:
			w.renewed(r)
		case <-lost:
			lost = nil
			w.lost()
		case <-orphaned:
			orphaned = nil
			if w.c.OnLost == guard.KillOnLost { // otherwise CMD continues, and its lease is renewed
				w.guard.Stop(guard.CauseOrphaned, syscall.SIGTERM)
			}
		case sig := <-sigs:
			w.signal(sig.(syscall.Signal))
		case <-limit:
			w.say.notice("timeout", []slog.Attr{slog.Duration("timeout", time.Duration(w.c.Timeout))},
				"%s has run for %s: sending %s", w.c.Cmd[0], time.Duration(w.c.Timeout), signalName(syscall.Signal(w.c.Signal)))
			w.guard.Stop(guard.CauseTimeout, syscall.Signal(w.c.Signal))
		case <-leftover:
			w.say.notice("leftover", nil, "%s has ended, but processes it started still run; the lease is kept until they end", w.c.Cmd[0])
		}
	}
}

// renewed sends the guard the new deadline of the lease.
func (w *supervision) renewed(r holdfast.RenewEvent) {
	if r.Err != nil {
		w.say.detail("renewal-failed", []slog.Attr{slog.Duration("left", r.Left), slog.String("message", bare(r.Err))},
			"renewal failed, %s left: %s", short(r.Left), bare(r.Err))
	}
	w.guard.Extend(guard.At(w.lease.Deadline)) // also after a failure, which may have replaced a renewal
}

func (w *supervision) lost() {
	err := w.lease.Err()
	act := "stopping " + string(w.c.Cmd[0])
	if w.c.OnLost == guard.WarnOnLost {
		act = string(w.c.Cmd[0]) + " runs on without it (--on-lost warn)"
	}
	if w.status == nil || w.cause == "" {
		attrs := append(lossAttrs(err), slog.String("message", bare(err)))
		w.say.notice("lost", attrs, "%s; %s", bare(err), act)
	}
	if w.c.OnLost == guard.KillOnLost {
		w.guard.Stop(guard.CauseLost, syscall.SIGTERM)
	}
}

func (w *supervision) signal(sig syscall.Signal) {
	select {
	case <-w.c.job.Gone():
		if sig == syscall.SIGTERM && w.c.OnLost == guard.WarnOnLost {
			return // the end of the shell's process, which is no reason to end CMD
		}
	default:
	}
	w.asked = w.asked || sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGQUIT
	attrs := []slog.Attr{slog.String("signal", signalName(sig))}
	if (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && w.c.job.Foreground() {
		w.say.detail("signal", attrs, "%s from the terminal", signalName(sig)) // the terminal has sent it to CMD too
		return
	}
	w.say.detail("signal", attrs, "passing %s on", signalName(sig))
	if sig == syscall.SIGTERM && w.c.KillAfter != nil {
		w.guard.Stop(guard.CauseAsked, sig)
		return
	}
	w.guard.Signal(sig)
}

// event records an event of the guard and reports it.
func (w *supervision) event(e guard.Event) {
	name := string(w.c.Cmd[0])
	switch e.Kind {
	case guard.Started:
		w.say.detail("started", []slog.Attr{slog.Int("pid", e.PID)}, "started %s, pid and group %d", name, e.PID)
		if w.tty.give(e.PID) {
			w.guard.Signal(syscall.SIGCONT) // it may have been stopped because of the terminal already
		}
	case guard.Failed:
		w.failed = startError(name, e.Errno)
	case guard.Suspended:
		w.say.notice("suspended", nil, "%s cannot be suspended while it holds a lease; it goes on", name)
	case guard.Exited:
		w.status = &e.Status
		w.say.detail("exited", []slog.Attr{slog.Int("code", codeOf(e.Status))}, "%s ended: %s", name, statusText(e.Status))
	case guard.Terming:
		w.cause = e.Cause
		if e.Cause == guard.CauseDeadline {
			w.say.notice("closing", []slog.Attr{slog.Duration("left", time.Until(w.lease.Deadline()))},
				"the lease of %q could not be renewed in time: stopping %s", w.c.Resource, name)
		}
	case guard.Killing:
		w.killed = true
		w.say.notice("kill", []slog.Attr{slog.String("cause", string(e.Cause))}, "%s did not end in time: KILL", name)
	case guard.Overdue:
		w.say.notice("overdue", nil, "processes of %s survive KILL, and the lease has ended: somebody else may hold %q now", name, w.c.Resource)
	case guard.Gone:
		w.gone = true
		attrs := []slog.Attr{slog.Duration("window_left", e.Left)}
		w.say.detail("gone", attrs, "all processes of %s have ended, %s before the lease could end", name, short(e.Left))
	}
}

// stopped reports whether the command was ended because the lease was lost.
func (w *supervision) stopped() bool {
	return w.failed == nil && w.gone && w.cause != "" && w.cause != guard.CauseTimeout && w.cause != guard.CauseAsked
}

// result returns the exit code of the most important event.
func (w *supervision) result() error {
	switch {
	case w.failed != nil:
		return w.say.failure("not-started", explain(w.failed, nil))
	case !w.gone:
		return w.say.failure("error", &exitError{code: exitFailed,
			text: "the guard process was killed; " + string(w.c.Cmd[0]) + " was killed too, since nothing watched over it"})
	case w.cause == guard.CauseTimeout && w.killed:
		return w.exit(exitTimeoutKill)
	case w.cause == guard.CauseTimeout:
		return w.exit(exitTimeout)
	case w.stopped():
		return w.exit(exitLost)
	}
	err := w.exit(codeOf(*w.status))
	if w.status.Signaled() {
		err.sig = w.status.Signal()
	}
	return err
}

func (w *supervision) exit(code int) *exitError {
	w.say.detail("exit", []slog.Attr{slog.Int("code", code)}, "exit code %d", code)
	return &exitError{code: code}
}

// startError returns the error if CMD was not started.
func startError(name string, errno syscall.Errno) error {
	switch errno {
	case syscall.ENOENT:
		return fail(exitNotFound, "command %q not found, or the interpreter in its first line is not", name)
	case syscall.ETIMEDOUT:
		return fail(exitLost, "the lease ended before %q could be started: try a longer --ttl", name)
	case syscall.EAGAIN, syscall.ENOMEM:
		return fail(exitFailed, "%q could not be started: %v", name, errno)
	}
	return notExecutable(name, errno)
}

// codeOf returns the exit code of an ended process as a shell reports it.
func codeOf(s syscall.WaitStatus) int {
	if s.Signaled() {
		return exitSignal + int(s.Signal())
	}
	return s.ExitStatus()
}

func statusText(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal " + signalName(s.Signal())
	}
	return fmt.Sprintf("exit code %d", s.ExitStatus())
}
