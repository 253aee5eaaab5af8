//go:build !linux

package process

import "syscall"

// Pause stops the process with SIGSTOP, which arrives soon.
func (p *Process) Pause() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// dieWithParent has no equivalent here: the end of its input ends the process.
func dieWithParent() *syscall.SysProcAttr { return nil }
