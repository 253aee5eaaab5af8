// Package guard runs a command and ends it, with all processes that it started, before
// the lease can be granted to another holder, even if the process that renews the lease
// is killed or stopped.
//
// There are two processes, and with a terminal a third (RunClient). The parent (holdfast
// run) holds the lease and sends its deadline to the guard over a socket pair. The guard
// is a second copy of the same program, in a process group of its own so that a kill of
// the parent's job does not reach it. It starts the command, forwards signals, reaps the
// orphans of the command, and alone decides when the group must end:
//
//   - The deadline is near and no later one was sent: TERM, then KILL early enough that
//     the group has verifiably ended before the deadline.
//   - The parent orders a stop (lease lost, time limit): TERM, then KILL after the
//     grace, never later than the deadline allows.
//   - The socket closes, so the parent is dead: the same as a lost lease.
//
// If the guard itself is killed, Linux kills the command (parent death signal) and the
// parent kills the rest of the group.
//
// The group is the command and all processes that it started, also in the background,
// except those that left the group on purpose (setsid, a shell with job control) or run
// as another user and may not be signalled.
//
// With a terminal the command joins the shell's job instead, so that it can read the
// terminal beside the other programs of a pipeline, and the keyboard's signals reach it.
// Its processes are then found as the guard's descendants in the session.
package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// writeLimit bounds one order to a guard that does not read.
const writeLimit = 2 * time.Second

// Guard is the parent's side of a guard. Its methods are for one goroutine; another
// goroutine may receive from Events.
type Guard struct {
	process int // process ID of the guard
	job     int // the process group that the command joins, or 0
	conn    *os.File
	out     *json.Encoder
	events  chan Event
	pid     atomic.Int64 // of the command, once it has started
}

// New starts a guard process, which waits for a command. The caller must call Run or Close.
func New() (*Guard, error) {
	mine, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	adopt()
	process, err := spawn(Name, theirs)
	if err != nil {
		mine.Close()
		return nil, fmt.Errorf("start the guard process: %w", err)
	}
	return &Guard{process: process, conn: mine, out: json.NewEncoder(mine), events: make(chan Event, 16)}, nil
}

// Run makes the guard start the command. The first event is Started or Failed. Run must be
// called once.
func (g *Guard) Run(c Command) {
	g.job = c.Job
	go g.read()
	g.send(order{Start: newStart(c)})
}

// Close ends a guard that runs no command.
func (g *Guard) Close() {
	_ = syscall.Kill(g.process, syscall.SIGKILL) // it has no command to end
	await(g.process)
	g.conn.Close()
}

// Events returns the channel of the guard's events. It is closed when the guard has ended,
// even by a signal; then the group is empty.
func (g *Guard) Events() <-chan Event { return g.events }

// Extend sends a new deadline of the lease.
func (g *Guard) Extend(until Instant) { g.send(order{Deadline: until}) }

// Signal sends sig to the command and all processes that it started.
func (g *Guard) Signal(sig syscall.Signal) { g.send(order{Signal: sig}) }

// Stop ends the group: sig now, KILL after the grace. Later calls do not change the cause.
func (g *Guard) Stop(cause StopCause, sig syscall.Signal) { g.send(order{Stop: &stop{cause, sig}}) }

// send sends an order. It ignores errors: the guard may be dead, which read detects, or
// stopped; then its latest deadline still bounds the command after it is resumed.
func (g *Guard) send(o order) {
	_ = g.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	_ = g.out.Encode(o)
}

// read receives events until the guard has ended. If the guard died, read ends the group.
func (g *Guard) read() {
	defer close(g.events)
	in := json.NewDecoder(g.conn)
	last := EventKind(0)
	for {
		var e Event
		if err := in.Decode(&e); err != nil {
			break
		}
		if e.Kind == Started {
			g.pid.Store(int64(e.PID))
		}
		last = e.Kind
		g.events <- e
	}
	await(g.process)
	g.conn.Close()
	if last != Gone && last != Failed {
		g.sweep()
	}
}

// sweep kills the group after the guard has died.
func (g *Guard) sweep() {
	pid := int(g.pid.Load())
	if pid == 0 {
		return
	}
	for left := processesOf(pid, g.job); !left.empty(); {
		_ = left.signal(syscall.SIGKILL)
		left.reap()
		time.Sleep(2 * time.Millisecond)
	}
}

// spawn starts this program again, under another name and in a new process group, and
// returns its process ID. The first argument is the file descriptor of the socket. The
// program inherits standard input, output and error for the command, and every other open
// file that this process inherited: process substitution and make's job server use them.
//
// spawn does not use package os, which first starts a process to test whether the kernel
// has process descriptors.
func spawn(name string, socket *os.File, args ...string) (process int, err error) {
	path, err := self()
	if err != nil {
		return 0, err
	}
	// The socket keeps its number, which no inherited file has. ExtraFiles of os/exec
	// would begin at 3 and replace inherited files of the command.
	fd := int(socket.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, append([]string{name, strconv.Itoa(fd)}, args...), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// await waits for the end of a child.
func await(process int) {
	for {
		if _, err := syscall.Wait4(process, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// socketPair returns two connected sockets, which started processes do not inherit.
func socketPair() (mine, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	// Each end has its own flags; the guard sets those of its end.
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, syscall.Close(fds[0]), syscall.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "parent"), nil
}
