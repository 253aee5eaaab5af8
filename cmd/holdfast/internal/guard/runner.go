package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Forwarded returns the signals that are forwarded to the command.
func Forwarded() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// tick is the longest wait of the guard. Go's timers stop while the machine is suspended, so
// the guard reads the clock within a tick of the resume.
const tick = 500 * time.Millisecond

// Main runs the guard. If the program was started under Name, main must call it and exit
// with its result.
func Main(args []string) int {
	rename(Name)
	if len(args) != 2 {
		fmt.Fprintf(os.Stderr, "holdfast: this is %s, which is started by holdfast run; it is of no use by itself\n", Name)
		return 64
	}
	fd, err := strconv.Atoi(args[1])
	if err != nil || fd < 3 || syscall.SetNonblock(fd, true) != nil {
		fmt.Fprintf(os.Stderr, "holdfast: this is %s, and there is no socket under %q\n", Name, args[1])
		return 64
	}
	syscall.CloseOnExec(fd)
	adopt()
	shield() // before the lock: each signal takes two switches to another thread, and four from a locked one
	// The command dies with the thread that starts it (dieWith), so this goroutine
	// keeps its thread until the process ends.
	runtime.LockOSThread()
	s := newRunner(os.NewFile(uintptr(fd), "parent"))
	return s.run()
}

// shield discards the signals that are meant for the command. It does not ignore them, since
// the programs that a process starts inherit ignored signals.
func shield() {
	for _, sig := range append(Forwarded(), syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU) {
		if !signal.Ignored(sig) {
			catch(sig)
		}
	}
}

// catch discards a signal. In the programs that this process starts it has its default
// action.
func catch(sig os.Signal) {
	signal.Notify(make(chan os.Signal, 1), sig) // the channel is never read; Notify does not block
}

// runner is the state of the guard process. Only the goroutine of run uses it.
type runner struct {
	conn   *os.File
	out    *json.Encoder
	reader *orderReader // nil after the parent has died
	reaped chan reap    // closed when there are no children

	cmd      Command
	pid      int // of the command
	all      processes
	exited   bool
	deadline Instant
	orphaned bool

	// The stages of a stop; each is entered once.
	cause  StopCause // set: TERM was sent
	killAt Instant   // end of the grace; killBy also considers the deadline
	killed bool
	late   bool
}

type reap struct {
	pid    int
	status syscall.WaitStatus
}

func newRunner(conn *os.File) *runner {
	return &runner{
		conn: conn, out: json.NewEncoder(conn),
		reader: newOrderReader(conn), reaped: make(chan reap),
	}
}

// run runs the command until it and all processes that it started have ended.
func (s *runner) run() int {
	first, ok := <-s.reader.orders
	if !ok || first.Start == nil {
		return 0 // the parent died before it sent a command
	}
	s.cmd = first.Start.command()
	s.deadline = s.cmd.Deadline
	others := s.readAhead()
	if !s.start() {
		return 0
	}
	for _, o := range others {
		s.obey(o, true)
	}
	go s.reapAll()
	timer := time.NewTimer(0)
	for {
		if s.exited && s.all.empty() {
			s.send(Event{Kind: Gone, Left: s.deadline.sub(now())})
			return 0
		}
		s.catchUp()
		timer.Reset(s.step())
		select {
		case o, ok := <-s.orders():
			s.obey(o, ok)
		case r, ok := <-s.reaped:
			s.child(r, ok)
		case <-timer.C:
		}
	}
}

// orders returns the channel of the parent's orders. After the parent has died it is nil, which never delivers.
func (s *runner) orders() <-chan order {
	if s.reader == nil {
		return nil
	}
	return s.reader.orders
}

// start starts the command and sends Started or Failed.
func (s *runner) start() bool {
	attr := &syscall.SysProcAttr{Setpgid: true, Pgid: s.cmd.Job}
	if s.cmd.RestoreTTOU {
		catch(syscall.SIGTTOU)
	}
	if s.cmd.OnLost == KillOnLost {
		dieWith(attr, syscall.SIGKILL)
	}
	if s.tooLate() {
		s.send(Event{Kind: Failed, Errno: syscall.ETIMEDOUT, Text: "the lease ended before the command was started"})
		return false
	}
	pid, err := syscall.ForkExec(s.cmd.Path, s.cmd.Args, &syscall.ProcAttr{
		Env: s.cmd.Env, Files: []uintptr{0, 1, 2}, Sys: attr,
	})
	if err != nil {
		errno := syscall.EIO
		_ = errors.As(err, &errno)
		s.send(Event{Kind: Failed, Errno: errno, Text: s.cmd.Path})
		return false
	}
	s.pid, s.all = pid, processesOf(pid, s.cmd.Job)
	s.send(Event{Kind: Started, PID: pid})
	return true
}

// tooLate reports whether the lease may end before a command that is started now.
func (s *runner) tooLate() bool {
	return s.cmd.OnLost == KillOnLost && now() >= s.deadline.add(-s.cmd.lead())
}

// step sends the signals that are due, and returns the time until the next step.
func (s *runner) step() time.Duration {
	here := now()
	if s.cause == "" && here >= s.termBy() {
		s.stop(CauseDeadline, syscall.SIGTERM)
	}
	if s.cause != "" && !s.killed && here >= s.killBy() {
		s.kill()
	} else if s.killed {
		_ = s.all.signal(syscall.SIGKILL) // again: a process may have been started while the last list was read
	}
	if s.killed && !s.late && s.cmd.OnLost == KillOnLost && here >= s.deadline {
		s.late = true
		s.send(Event{Kind: Overdue})
	}
	wake := here.add(tick)
	switch {
	case s.killed:
		wake = here.add(2 * time.Millisecond)
	case s.exited && s.cmd.Job == 0: // the end of other processes in the group is not reported
		wake = here.add(50 * time.Millisecond)
	}
	switch {
	case s.cause == "":
		wake = earlier(wake, s.termBy())
	case !s.killed:
		wake = earlier(wake, s.killBy())
	}
	return max(wake.sub(here), time.Millisecond)
}

// termBy returns the instant at which TERM is due, by the present deadline.
func (s *runner) termBy() Instant {
	if s.cmd.OnLost == WarnOnLost {
		return never
	}
	return s.deadline.add(-s.cmd.notice())
}

// killBy returns the instant at which KILL is due after TERM.
func (s *runner) killBy() Instant {
	if s.cmd.OnLost == WarnOnLost {
		return s.killAt
	}
	return earlier(s.killAt, s.deadline.add(-s.cmd.lead()))
}

// obey carries out an order; ok is false if the parent has died.
func (s *runner) obey(o order, ok bool) {
	switch {
	case !ok:
		s.reader = nil
		s.orphaned = true
		s.orphan()
	case o.Deadline != 0:
		s.deadline = max(s.deadline, o.Deadline)
	case o.Signal != 0:
		s.pass(o.Signal)
	case o.Stop != nil:
		s.stop(o.Stop.Cause, o.Stop.Signal)
	}
}

// orphan handles the death of the parent, after which the lease is not renewed.
func (s *runner) orphan() {
	if s.cmd.OnLost == WarnOnLost {
		fmt.Fprintf(os.Stderr, "holdfast: the process that renewed the lease is dead; process %d goes on without a lease (--on-lost warn)\n", s.pid)
		return
	}
	s.stop(CauseOrphaned, syscall.SIGTERM)
	if s.cmd.Nested {
		s.kill()
	}
}

// stop sends sig and starts the grace. A second stop can only shorten the grace.
func (s *runner) stop(cause StopCause, sig syscall.Signal) {
	grace := s.cmd.KillAfter
	if cause != CauseTimeout && cause != CauseAsked {
		grace = s.cmd.grace()
	}
	at := now().add(grace)
	if s.cause != "" {
		s.killAt = earlier(s.killAt, at)
		return
	}
	s.cause, s.killAt = cause, at
	s.signal(sig)
	s.send(Event{Kind: Terming, Cause: cause})
}

// kill sends KILL to the group.
func (s *runner) kill() {
	s.killed = true
	s.signal(syscall.SIGKILL)
	s.send(Event{Kind: Killing, Cause: s.cause})
}

// signal sends a signal that ends processes, and continues those that are stopped.
func (s *runner) signal(sig syscall.Signal) {
	if err := s.all.signal(sig); err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: cannot send %v to process %d and what it started: %v\n", sig, s.pid, err)
	}
	_ = s.all.signal(syscall.SIGCONT)
}

// pass forwards a signal.
func (s *runner) pass(sig syscall.Signal) {
	_ = s.all.signal(sig)
	if sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 {
		_ = s.all.signal(syscall.SIGCONT) // a stopped process would not end
	}
}

// child handles a child that has ended or was suspended from the terminal.
func (s *runner) child(r reap, ok bool) {
	switch {
	case !ok:
		s.reaped = nil
	case r.pid != s.pid:
		// An adopted orphan was reaped.
	case r.status.Stopped():
		// The shell does not see that a command in a group of its own is suspended,
		// so the command is continued at once.
		if r.status.StopSignal() == syscall.SIGTSTP && s.cmd.Job == 0 {
			_ = s.all.signal(syscall.SIGCONT)
			s.send(Event{Kind: Suspended})
		}
	default:
		s.exited = true
		s.send(Event{Kind: Exited, Status: r.status})
	}
}

// send sends an event, unless the parent has died.
func (s *runner) send(e Event) {
	if s.orphaned {
		return
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	_ = s.out.Encode(e)
}

// reapAll reaps all children, the command and adopted orphans, until there are none.
func (s *runner) reapAll() {
	reaped := s.reaped
	defer close(reaped)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		reaped <- reap{pid, status}
	}
}
