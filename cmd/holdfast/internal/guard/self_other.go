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

// dieWith does nothing: only Linux can kill a process when its parent dies.
func dieWith(*syscall.SysProcAttr, syscall.Signal) {}

// self returns the path of this program.
func self() (string, error) { return os.Executable() }

// rename does nothing.
func rename(string) {}

// onTerminal reports false: the descendants of a process cannot be found once
// their parents have ended, so the command needs a process group of its own.
func onTerminal() bool { return false }

// descendants is not used here: onTerminal returns false.
type descendants struct{ group }

// defaultAction removes Go's handlers of the signal, as far as signal.Reset can.
func defaultAction(sig syscall.Signal) { signal.Reset(sig) }
