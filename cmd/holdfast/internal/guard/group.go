package guard

import (
	"errors"
	"syscall"
)

// group is a process group by its number. While it has a member, no other
// process or group can get that number.
type group int

// signal sends sig to all members. That there is none left is not an error.
func (g group) signal(sig syscall.Signal) error {
	err := syscall.Kill(-int(g), sig)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// empty tells whether no member is left. A member that may not be signalled
// (EPERM) is a member, and so is one that died and was not reaped.
func (g group) empty() bool {
	return errors.Is(syscall.Kill(-int(g), 0), syscall.ESRCH)
}

// reap collects dead members that are children of this process.
func (g group) reap() {
	for {
		pid, err := syscall.Wait4(-int(g), nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
