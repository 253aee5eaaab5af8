package command

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal on standard input, if this program is
// its foreground job. The command's group must become the foreground in its
// place, or the command would be stopped when it reads.
type terminal struct{ ours int } // this program's process group; 0: there is no terminal to hand over

// foreground returns the terminal on standard input, if this program is in its foreground
// job.
func foreground() terminal {
	front, err := unix.IoctlGetInt(int(os.Stdin.Fd()), unix.TIOCGPGRP)
	if err != nil || front != unix.Getpgrp() {
		return terminal{}
	}
	return terminal{ours: front}
}

// give makes the group the foreground job and reports whether it succeeded.
func (t terminal) give(group int) bool {
	return t.ours != 0 && setForeground(group) == nil
}

// takeBack makes this program the foreground job again. It is the last thing
// before the end: from now on the signal that stops a background program which
// touches the terminal is ignored.
func (t terminal) takeBack() {
	if t.ours == 0 {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	_ = setForeground(t.ours)
}

func setForeground(group int) error {
	return unix.IoctlSetPointerInt(int(os.Stdin.Fd()), unix.TIOCSPGRP, group)
}
