//go:build !linux

package guard

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharedClock keeps running while the machine is suspended (on macOS).
const sharedClock = unix.CLOCK_MONOTONIC

// adopt does nothing: orphans go to process 1, which reaps them.
func adopt() {}

// dieWith does nothing: only Linux can tie a process to its parent's life.
func dieWith(*syscall.SysProcAttr, syscall.Signal) {}

// self returns the path of this program.
func self() (string, error) { return os.Executable() }

// rename does nothing.
func rename(string) {}

// onTerminal reports false: the descendants of a process cannot be found once
// their parents have ended, so the command needs a process group of its own.
func onTerminal() bool { return false }

// descendants are not used here.
type descendants struct{ group }

// defaultAction sets the signal's default action, or what Go makes of it.
func defaultAction(sig syscall.Signal) { signal.Reset(sig) }
