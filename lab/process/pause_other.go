//go:build !linux

package process

import "syscall"

// PausePID stops a process with SIGSTOP, which arrives soon.
func PausePID(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

// DieWithParent has no equivalent here: the end of its input ends a process.
func DieWithParent() *syscall.SysProcAttr { return nil }
