package guard

import (
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// ClientName is the name (argv[0]) under which RunClient starts the program.
const ClientName = "hf-client"

// OnTerminal reports whether the program must be a member of a job. A second process, which
// RunClient starts, then does its work.
func OnTerminal() bool { return onTerminal() }

// RunClient starts the program once more, outside of the shell's job, forwards signals to
// it and waits for its end. So the shell can stop and continue this process with the rest
// of the job, while the other process, the client, renews the lease.
func RunClient(args []string) (syscall.WaitStatus, error) {
	mine, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	defer mine.Close()
	sigs := make(chan os.Signal, 16)
	for _, sig := range Forwarded() {
		if !signal.Ignored(sig) {
			signal.Notify(sigs, sig)
		}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGCHLD)
	client, err := spawn(ClientName, theirs, args...)
	theirs.Close()
	if err != nil {
		return 0, err
	}
	go func() { _, _ = io.Copy(mine, mine) }() // echoes while this process is not stopped
	for {
		select {
		case sig := <-sigs:
			_ = syscall.Kill(client, sig.(syscall.Signal))
		case <-changed:
			var status syscall.WaitStatus
			if ended, err := syscall.Wait4(client, &status, syscall.WNOHANG, nil); ended == client || err != nil {
				return status, err
			}
		}
	}
}

// ShellJob is a client's connection to the process that called RunClient, which is in the
// shell's job. The methods of a nil ShellJob do nothing.
type ShellJob struct {
	conn   *os.File
	parent int
	group  int
	// restoreTTOU reports that the client ignores TTOU and the command must not.
	restoreTTOU bool
	running     chan struct{} // receives a value when the parent has answered
	gone        chan struct{}
}

// OpenShellJob returns the job of a client, and the client's arguments. If the program was
// started under ClientName, main must call it. If the process that called RunClient dies,
// the client gets TERM.
func OpenShellJob(args []string) (*ShellJob, []string, error) {
	rename(ClientName)
	if len(args) < 2 {
		return nil, nil, syscall.EINVAL
	}
	fd, err := strconv.Atoi(args[1])
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, nil, err
	}
	syscall.CloseOnExec(fd)
	parent := os.Getppid()
	group, err := unix.Getpgid(parent)
	if err != nil {
		return nil, nil, err
	}
	j := &ShellJob{
		conn: os.NewFile(uintptr(fd), "job"), parent: parent, group: group, restoreTTOU: !signal.Ignored(syscall.SIGTTOU),
		running: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	// With `stty tostop` a message would stop the client, and with it the renewals.
	signal.Ignore(syscall.SIGTTOU)
	go j.read()
	return j, append([]string{args[0]}, args[2:]...), nil
}

// read receives the answers of the parent. When the parent has died, it sends TERM to this
// process.
func (j *ShellJob) read() {
	var answer [1]byte
	for {
		if _, err := j.conn.Read(answer[:]); err != nil {
			break
		}
		select {
		case j.running <- struct{}{}:
		default:
		}
	}
	close(j.gone)
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
}

// Gone returns a channel that is closed when the process that called RunClient has died.
func (j *ShellJob) Gone() <-chan struct{} {
	if j == nil {
		return nil
	}
	return j.gone
}

// AwaitRunning waits until the job is not stopped, or stop is closed.
func (j *ShellJob) AwaitRunning(stop <-chan struct{}) {
	if j == nil {
		return
	}
	select {
	case <-j.running: // a late answer to an earlier call
	default:
	}
	if _, err := j.conn.Write([]byte{0}); err != nil {
		return // the parent has died
	}
	select {
	case <-j.running:
	case <-j.gone:
	case <-stop:
	}
}

// Foreground reports whether the job is in the foreground of its terminal, so that signals of
// the keyboard also reach the command.
func (j *ShellJob) Foreground() bool {
	if j == nil {
		return false
	}
	front, ok := foregroundGroup()
	return ok && front == j.group
}

// Continue continues the process that called RunClient if it is stopped, so that it detects the
// end of the client.
func (j *ShellJob) Continue() {
	if j != nil && os.Getppid() == j.parent {
		_ = syscall.Kill(j.parent, syscall.SIGCONT)
	}
}

// Take makes the command a member of the job, if there is one.
func (j *ShellJob) Take(c *Command) {
	if j != nil {
		c.Job, c.RestoreTTOU = j.group, j.restoreTTOU
	}
}

// foregroundGroup returns the foreground process group of the controlling terminal, if
// there is one.
func foregroundGroup() (group int, ok bool) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return 0, false
	}
	defer tty.Close()
	group, err = unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return group, err == nil
}

// Die ends this process by the signal, so that a shell detects the cause: only then does ^C
// end a loop of the shell. Die returns if that is not possible, as in process 1 of a
// container, for which signals have no default action.
func Die(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // only the command dumps core
	defaultAction(sig)
	_ = syscall.Kill(os.Getpid(), sig)
}
