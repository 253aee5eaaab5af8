package guard

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// writeLimit bounds one order to a guard that does not read.
const writeLimit = 2 * time.Second

// Guard is the parent's end. Its methods are for one goroutine; Events may be
// read by another.
type Guard struct {
	proc   *exec.Cmd
	job    int // the process group that the command joins, or 0
	conn   *os.File
	out    *gob.Encoder
	events chan Event
	pid    atomic.Int64 // of the command, once it has started
}

// Start starts a guard and has it start the command. What became of that comes
// as the first event.
func Start(c Command) (*Guard, error) {
	mine, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	adopt()
	proc, err := spawn(Name, theirs)
	if err != nil {
		mine.Close()
		return nil, fmt.Errorf("start the guard process: %w", err)
	}
	g := &Guard{proc: proc, job: c.Job, conn: mine, out: gob.NewEncoder(mine), events: make(chan Event, 16)}
	go g.read()
	g.send(order{Start: &c})
	return g, nil
}

// Events yields what the guard tells. It is closed when the guard has ended,
// and then no member of the group is left, whatever happened to the guard.
func (g *Guard) Events() <-chan Event { return g.events }

// Extend tells until when the lease is sure.
func (g *Guard) Extend(until time.Time) { g.send(order{Deadline: At(until)}) }

// Signal passes sig on to the command and all that it started.
func (g *Guard) Signal(sig syscall.Signal) { g.send(order{Signal: sig}) }

// Stop ends the group: sig now, KILL after the grace. The first cause stays.
func (g *Guard) Stop(cause Cause, sig syscall.Signal) { g.send(order{Stop: &stop{cause, sig}}) }

// send gives an order. A guard that cannot be reached is dead or stopped: read
// sees to the first, and the deadline it was told last bounds the second.
func (g *Guard) send(o order) {
	_ = g.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	_ = g.out.Encode(o)
}

// read owns the receiving side; it ends with the guard.
func (g *Guard) read() {
	defer close(g.events)
	in := gob.NewDecoder(g.conn)
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
	_ = g.proc.Wait()
	g.conn.Close()
	if last != Gone && last != Failed {
		g.sweep()
	}
}

// sweep ends the group in the place of a guard that died.
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

// spawn starts this program once more, under another name and in a process group
// of its own. It finds its socket under the number in its first argument. Standard input, output and error are passed
// through it to the command, and so is every other open file that this process
// got from its own parent: process substitution and make's job server use them.
func spawn(name string, socket *os.File, args ...string) (*exec.Cmd, error) {
	path, err := self()
	if err != nil {
		return nil, err
	}
	// The socket keeps its number, which is free here and thus also free of
	// meaning to the command; os/exec's ExtraFiles would begin at 3 and hide
	// what the command was meant to find there.
	fd := int(socket.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{name, strconv.Itoa(fd)}, args...),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	return cmd, cmd.Start()
}

// socketPair makes two connected sockets, neither of which a started process
// inherits.
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
	// Only this end may be non-blocking: each end has its own flags, and the
	// guard sets its own.
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(err, syscall.Close(fds[0]), syscall.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "parent"), nil
}
