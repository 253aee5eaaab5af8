package guard

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Forwarded are the signals that are passed on to the command.
func Forwarded() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// tick bounds every sleep of the guard, so that a resume from suspend, in which
// Go's timers stand still, is noticed soon.
const tick = 500 * time.Millisecond

// Main is the guard process: main must call it when the program was started
// under Name, and exit with what it returns.
func Main(args []string) int {
	// The command is tied to the life of the thread that starts it, so this
	// goroutine keeps its thread until the process ends.
	runtime.LockOSThread()
	rename(Name)
	if len(args) != 2 {
		fmt.Fprintf(os.Stderr, "%s is started by holdfast run; it is of no use by itself\n", Name)
		return 64
	}
	fd, err := strconv.Atoi(args[1])
	if err != nil || fd < 3 || syscall.SetNonblock(fd, true) != nil {
		fmt.Fprintf(os.Stderr, "%s: no socket under %q\n", Name, args[1])
		return 64
	}
	syscall.CloseOnExec(fd)
	adopt()
	shield()
	s := newServer(os.NewFile(uintptr(fd), "parent"))
	return s.run()
}

// shield keeps signals away that are meant for the command. They are caught,
// not ignored: what a process ignores, the programs it starts ignore too.
func shield() {
	for _, sig := range append(Forwarded(), syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU) {
		if !signal.Ignored(sig) {
			catch(sig)
		}
	}
}

// catch does nothing when the signal comes; the programs that this process
// starts have its default action.
func catch(sig os.Signal) {
	signal.Notify(make(chan os.Signal, 1), sig) // never read: a full channel drops
}

// server is the guard's state; only the goroutine of run touches it.
type server struct {
	conn   *os.File
	out    *gob.Encoder
	orders chan order // closed when the parent is gone
	reaped chan reap  // closed when no child is left

	cmd      Command
	pid      int // of the command
	all      processes
	exited   bool
	deadline Instant
	orphaned bool

	// The stages of a stop; each is entered once.
	cause  Cause   // set: TERM was sent
	killAt Instant // by the grace alone; the deadline may call for an earlier KILL
	killed bool
	late   bool
}

type reap struct {
	pid    int
	status syscall.WaitStatus
}

func newServer(conn *os.File) *server {
	return &server{
		conn: conn, out: gob.NewEncoder(conn),
		orders: make(chan order), reaped: make(chan reap),
	}
}

// run serves until the command and all that it started are gone.
func (s *server) run() int {
	go s.readOrders()
	first, ok := <-s.orders
	if !ok || first.Start == nil {
		return 0 // the parent died before it asked for anything
	}
	s.cmd, s.deadline = *first.Start, first.Start.Deadline
	if !s.start() {
		return 0
	}
	go s.reapAll()
	timer := time.NewTimer(0)
	for {
		if s.exited && s.all.empty() {
			s.tell(Event{Kind: Gone, Left: s.deadline.sub(now())})
			return 0
		}
		timer.Reset(s.step())
		select {
		case o, ok := <-s.orders:
			s.obey(o, ok)
		case r, ok := <-s.reaped:
			s.child(r, ok)
		case <-timer.C:
		}
	}
}

// start starts the command and tells how that went.
func (s *server) start() bool {
	attr := &syscall.SysProcAttr{Setpgid: true, Pgid: s.cmd.Job}
	if s.cmd.RestoreTTOU {
		catch(syscall.SIGTTOU)
	}
	if s.cmd.OnLost == KillOnLost {
		dieWith(attr, syscall.SIGKILL)
	}
	if now() >= s.deadline.add(-s.cmd.lead()) && s.cmd.OnLost == KillOnLost {
		s.tell(Event{Kind: Failed, Errno: syscall.ETIMEDOUT, Text: "the lease ended before the command was started"})
		return false
	}
	pid, err := syscall.ForkExec(s.cmd.Path, s.cmd.Args, &syscall.ProcAttr{
		Env: s.cmd.Env, Files: []uintptr{0, 1, 2}, Sys: attr,
	})
	if err != nil {
		errno := syscall.EIO
		_ = errors.As(err, &errno)
		s.tell(Event{Kind: Failed, Errno: errno, Text: s.cmd.Path})
		return false
	}
	s.pid, s.all = pid, processesOf(pid, s.cmd.Job)
	s.tell(Event{Kind: Started, PID: pid})
	return true
}

// step does what is due and returns when to look again.
func (s *server) step() time.Duration {
	here := now()
	if s.cause == "" && here >= s.termBy() {
		s.stop(CauseDeadline, syscall.SIGTERM)
	}
	if s.cause != "" && !s.killed && here >= s.killBy() {
		s.kill()
	} else if s.killed {
		_ = s.all.signal(syscall.SIGKILL) // again: what was started while the last list was read was not on it
	}
	if s.killed && !s.late && s.cmd.OnLost == KillOnLost && here >= s.deadline {
		s.late = true
		s.tell(Event{Kind: Overdue})
	}
	wake := here.add(tick)
	switch {
	case s.killed: // soon gone
		wake = here.add(2 * time.Millisecond)
	case s.exited && s.cmd.Job == 0: // others may run on for long; descendants are reaped
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

// termBy is when TERM is due if the deadline does not move.
func (s *server) termBy() Instant {
	if s.cmd.OnLost == WarnOnLost {
		return never
	}
	return s.deadline.add(-s.cmd.notice())
}

// killBy is when KILL is due after TERM.
func (s *server) killBy() Instant {
	if s.cmd.OnLost == WarnOnLost {
		return s.killAt
	}
	return earlier(s.killAt, s.deadline.add(-s.cmd.lead()))
}

// obey carries out an order; ok is false when the parent is gone.
func (s *server) obey(o order, ok bool) {
	switch {
	case !ok:
		s.orders = nil
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

// orphan handles the death of the parent: nobody renews the lease any more.
func (s *server) orphan() {
	if s.cmd.OnLost == WarnOnLost {
		fmt.Fprintf(os.Stderr, "holdfast: the process that renewed the lease is dead; process %d goes on without a lease (--on-lost warn)\n", s.pid)
		return
	}
	s.stop(CauseOrphaned, syscall.SIGTERM)
	if s.cmd.Nested {
		s.kill()
	}
}

// stop sends sig and starts the grace. A second stop can only shorten it.
func (s *server) stop(cause Cause, sig syscall.Signal) {
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
	s.tell(Event{Kind: Terming, Cause: cause})
}

// kill ends the group for good.
func (s *server) kill() {
	s.killed = true
	s.signal(syscall.SIGKILL)
	s.tell(Event{Kind: Killing, Cause: s.cause})
}

// signal ends processes, so it also continues those that are stopped.
func (s *server) signal(sig syscall.Signal) {
	if err := s.all.signal(sig); err != nil {
		fmt.Fprintf(os.Stderr, "holdfast: cannot send %v to process %d and what it started: %v\n", sig, s.pid, err)
	}
	_ = s.all.signal(syscall.SIGCONT)
}

// pass passes a signal on that somebody else sent.
func (s *server) pass(sig syscall.Signal) {
	_ = s.all.signal(sig)
	if sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 {
		_ = s.all.signal(syscall.SIGCONT) // what is stopped would not end
	}
}

// child handles the end, or the suspension from the terminal, of a child.
func (s *server) child(r reap, ok bool) {
	switch {
	case !ok:
		s.reaped = nil
	case r.pid != s.pid:
		// An orphan that was adopted: reaped, and of no other interest.
	case r.status.Stopped():
		// In a group of its own the shell would not see that it is suspended:
		// the command is continued at once.
		if r.status.StopSignal() == syscall.SIGTSTP && s.cmd.Job == 0 {
			_ = s.all.signal(syscall.SIGCONT)
			s.tell(Event{Kind: Suspended})
		}
	default:
		s.exited = true
		s.tell(Event{Kind: Exited, Status: r.status})
	}
}

// tell sends an event; a parent that is gone does not hear it.
func (s *server) tell(e Event) {
	if s.orphaned {
		return
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	_ = s.out.Encode(e)
}

// readOrders owns the receiving side of the socket.
func (s *server) readOrders() {
	defer close(s.orders)
	orders := s.orders
	in := gob.NewDecoder(s.conn)
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return
		}
		orders <- o
	}
}

// reapAll waits for every child, the command and adopted orphans, until there
// is none.
func (s *server) reapAll() {
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
