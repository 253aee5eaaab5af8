package guard

import (
	"errors"
	"syscall"
)

// processes are the command and what it started.
type processes interface {
	// signal sends sig to all of them. That there is none left is not an error.
	signal(sig syscall.Signal) error
	// empty reports whether none is left.
	empty() bool
	// reap collects those that are dead and children of this process.
	reap()
}

// processesOf returns those of a command that was started with the PID. If it
// joined the process group of a job, others are in that group too, so the
// command's own are found as descendants of this process.
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

// A member that may not be signalled
// (EPERM) is a member, and so is one that died and was not reaped.
func (g group) empty() bool {
	return errors.Is(syscall.Kill(-int(g), 0), syscall.ESRCH)
}

func (g group) reap() { reapChildren(-int(g)) }

// reapChildren collects dead children, of all or of a group as wait4 names it.
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
