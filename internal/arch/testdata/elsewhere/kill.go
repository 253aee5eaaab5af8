// Package elsewhere does not build on Windows, which has no such signal.
package elsewhere

import "syscall"

// Stop is a call that only Unix has.
func Stop(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }
