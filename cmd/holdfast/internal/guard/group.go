package guard

import (
	"errors"
	"syscall"
)

// processes are the command and the processes that it started.
type processes interface {
	// signal sends sig to all processes. It returns no error if there are none.
	signal(sig syscall.Signal) error
	// empty reports whether there are none.
	empty() bool
	// reap reaps those that are dead children of this process.
	reap()
}

// processesOf returns the processes of the command with the PID. If the command joined the
// process group of a job, that group has other processes too, so they are found as
// descendants of this process.
func processesOf(pid, job int) processes {
	if job != 0 {
		return descendants{}
	}
	return group(pid)
}

// group is a process group by its number. While it has a member, no other
// process or group can get that number.
type group int

func (g group) signal(sig syscall.Signal) error {
	err := syscall.Kill(-int(g), sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// empty also counts members that may not be signalled (EPERM), and dead members that were
// not reaped.
func (g group) empty() bool {
	return errors.Is(syscall.Kill(-int(g), 0), syscall.ESRCH)
}

func (g group) reap() { reapChildren(-int(g)) }

// reapChildren reaps dead children. which selects them as the first argument of wait4 does.
func reapChildren(which int) {
	for {
		pid, err := syscall.Wait4(which, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
