package guard

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedClock keeps running while the machine is suspended.
const sharedClock = unix.CLOCK_BOOTTIME

// adopt makes this process the parent of descendants whose own parent died, and reap them. In
// a container there may be no other process that does so.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// dieWith makes the kernel send sig to the started process when the thread that
// starts it ends.
func dieWith(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// self returns the path of this program, which is valid even after its file was replaced.
func self() (string, error) {
	const exe = "/proc/self/exe"
	if _, err := os.Stat(exe); err == nil {
		return exe, nil
	}
	return os.Executable()
}

// rename sets the name of this process as ps and pkill show it.
func rename(name string) {
	_ = os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", os.Getpid()), []byte(name), 0)
}

// onTerminal reports whether this process has a controlling terminal and can read /proc.
func onTerminal() bool {
	if _, _, ok := parentOf("self"); !ok {
		return false
	}
	_, ok := foregroundGroup()
	return ok
}

// defaultAction sets the signal's default action. signal.Reset is not enough: Go
// handles some signals itself, and a QUIT would print goroutines.
func defaultAction(sig syscall.Signal) {
	signal.Reset(sig)
	var zero [64]byte // a struct sigaction with SIG_DFL, no flags and an empty mask
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&zero)), 0, 8, 0, 0)
}
